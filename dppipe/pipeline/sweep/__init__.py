"""One run for each point of a grid and each seed: planned whole, run in processes of their own."""
