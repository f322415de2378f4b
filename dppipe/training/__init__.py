"""Training: the private step, the Lightning shell around it, the ledger and the run directory."""
