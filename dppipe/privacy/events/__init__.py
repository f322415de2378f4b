"""Privacy events: as plain data, as sequences, and coarsened."""
