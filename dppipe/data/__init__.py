"""Data: where records come from. One kind a file, named after it; `base` is the contract."""
