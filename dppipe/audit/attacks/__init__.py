"""Attacks on a trained model, as an outsider might make them: `dppipe attack`.

They illustrate, and prove nothing: an attack that fails may be a weak attack. What is computed from
real members carries no noise and goes under `nonprivate/attack/`. Read next: `victim.py`.
"""
