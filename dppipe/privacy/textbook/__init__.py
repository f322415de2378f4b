"""The textbook composition theorems."""
