"""Lightning: the callback, the module and everything that stands between a Trainer and the private step."""
