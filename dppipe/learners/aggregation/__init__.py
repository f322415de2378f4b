"""Subsample and aggregate: what is estimated on each block, and how estimates are bounded.

`inner_options.py` has the options of the estimators, `linear_inner.py` and `network_inner.py` the
estimators themselves, and `estimates.py` what makes any of them safe: a failure gives the origin,
and every estimate is brought into a public ball.
"""
