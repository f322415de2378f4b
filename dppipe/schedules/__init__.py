"""Shapes over a run, as plain functions of its progress.

Noise schedules (`dppipe.noise`) and schedules of the learning rate, the batch size and the bound
(`dppipe.optim.schedules`) add options and defaults; the arithmetic of each shape is here, once.
"""
