"""Parts of linear regression from noisy sums.

`targets.py` makes bounded targets, `moments.py` adds up rows and targets without rounding,
`ridge.py` solves for the weights. What is computed of them is private until the gate adds noise.
"""
