"""Models: options that build a network. One kind a file, named after it; `base` is the contract."""
