"""Earlier runs: private runs that have trained the weights which a run starts from."""
