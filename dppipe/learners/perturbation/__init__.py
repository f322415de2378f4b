"""What output and objective perturbation share: losses, their constants, and a certain solver.

`loss_constants.py` is what a plan needs, without torch. `objective.py` is the objective of a run,
`solver.py` minimises it to a tolerance that is proven, and `precise_products.py` is why.
"""
