"""Lightning: the callback, the module and everything between a Trainer and the private step."""
