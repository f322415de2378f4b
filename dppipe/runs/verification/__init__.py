"""What `verify` looks for: faults of rows, of the whole ledger, and of covered runs."""
