"""Inputs between the data and the model: fixed features, and stages that are released and paid for.

Read first: `stages.py`, what a stage is; then `model_inputs.py`, which applies them to a run.
"""
