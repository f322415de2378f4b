"""What a textbook says: composition theorems, single mechanisms, group privacy."""
