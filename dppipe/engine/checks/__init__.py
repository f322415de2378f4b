"""Checks of a model on made-up input, before budget is spent."""
