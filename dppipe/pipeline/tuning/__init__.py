"""The private search of `dppipe tune`: the best of a secret number of runs, at one cost.

Read first: `search.py`, from the one charge to the released run.
"""
