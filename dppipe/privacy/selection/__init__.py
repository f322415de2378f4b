"""The cost of the best of a random number of private runs, by privacy curves (`PROOF.md`)."""
