"""Records on their way to a learner: drawn, read one at a time, and cut into physical batches."""
