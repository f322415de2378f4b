"""Settings that are proposed from public facts alone: no record is read and nothing is run."""
