"""Learners: what trains a model under a budget. It starts with the parts of DP-SGD's private step."""
