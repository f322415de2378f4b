"""Benchmarks: the cost of a private step next to an ordinary one, and to Opacus if installed.

`measure.py` measures time and memory; `workloads.py` holds the reference models; `dppipe bench` and
`benchmarks/` call them. Nothing here is a test: figures belong to the machine they were taken on.
"""
