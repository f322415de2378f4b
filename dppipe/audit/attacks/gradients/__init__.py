"""Gradient inversion: what a gradient tells of the record that it was computed from."""
