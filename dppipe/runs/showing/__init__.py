"""What is shown of a run while it goes on, and when it has ended."""
