"""Splitting: which records are trained on, validate and test, by position or by content."""
