"""Metrics of a fit: where each comes from, who may follow it, and what leaves the fit."""
