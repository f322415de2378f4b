"""A spec to start from, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

BASE = """\
version: 1
name: digits
seed: 7
data: {kind: digits, holdout: public}
model: {kind: mlp, hidden: [32]}
optimizer: {kind: sgd, lr: 0.25}
sampler: {kind: poisson, expected_batch_size: 256}
clipping:
  kind: flat
  max_grad_norm: 1.0
noise: {kind: constant, noise_multiplier: auto}
accountant: {kind: pld}
budget: {epsilon: 3.0, delta: 1.0e-5}
train: {epochs: 20}
"""


@pytest.fixture
def base() -> str:
    return BASE


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
