"""Learners train a model under a budget; here are the parts of DP-SGD's private step."""
