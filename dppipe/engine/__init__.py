"""The engine: per-sample gradient norms and clipped sums for any `torch.nn.Module`."""
