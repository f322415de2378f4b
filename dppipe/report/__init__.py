"""Reports: what is told of runs, from their files alone."""
