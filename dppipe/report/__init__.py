"""Reports of runs, made from their files alone."""
