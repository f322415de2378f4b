"""Optimizers: options that build a torch optimizer. One kind a file, named after it; `base` is the contract."""
