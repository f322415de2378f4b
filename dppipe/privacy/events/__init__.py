"""Privacy events: one file for each; as plain data, as sequences, and coarsened."""
