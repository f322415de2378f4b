"""Renyi and concentrated differential privacy."""
