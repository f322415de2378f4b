"""The pipeline: from a spec to a run, a resumed run, an evaluation or a loaded model."""
