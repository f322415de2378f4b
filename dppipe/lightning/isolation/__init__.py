"""User code, isolated: what it does while it sees a record leaves no trace."""
