"""Benchmarks: what a private step costs next to an ordinary one, and next to Opacus where it is installed.

`measure.py` times and weighs; `workloads.py` holds the reference models; `dppipe bench` and `benchmarks/` are its two doors.
Nothing here is a test: figures belong to the machine they were taken on.
"""
