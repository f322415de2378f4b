"""Features: what inputs become between the data and the model.

An `option.py` names the kinds. `orientation_histograms.py` is a fixed function of each record;
`pca.py` plans a release. Read next: `dppipe/learners/inputs/model_inputs.py`, which applies them.
"""
