"""Choosing one of several files of weights by what they lose on the records.

Files are named in the spec and hashed by the plan (`candidate_files.py`), loaded before the charge
(`candidate_networks.py`), and scored inside it, one record at a time (`loss_scores.py`).
"""
