"""A run on disk: its directory, ledger, record, curves and verification."""
