"""Attacks on a trained model as an outsider might make them: they illustrate, audits test."""
