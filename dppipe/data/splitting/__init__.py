"""Splitting by content: which part of the data a record belongs to, decided by that record alone."""
