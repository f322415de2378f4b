"""Learning-rate schedules. One kind a file, named after it; `base` is the contract."""
