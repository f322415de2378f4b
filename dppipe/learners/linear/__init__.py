"""What learners of linear models share: rows of bounded norm, and the layer that predicts by them.

A record's features are scaled by a function of that record alone (`row_bounds.py`), read once
(`rows.py`), and solved for. The solution goes into a layer that scales its inputs in the same way
(`bounded_linear.py`).
"""
