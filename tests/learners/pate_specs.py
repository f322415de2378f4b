"""A small spec with PATE, and its private and public files, for tests of whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from dppipe.cli.app import app

SPEC = """\
version: 1
name: pate
data: {kind: npz, path: PRIVATE, classes: 3, holdout: public, split: {train: 0.8, val: 0.1, test: 0.1}}
learner:
  kind: pate
  teachers: 12
  queries: 40
  aggregator: gnmax
  public: {kind: npz, path: PUBLIC}
budget: {epsilon: 8.0, delta: 1.0e-5}
"""
CLASSES = 3
QUERIES = 40


def made_up(records: int, *, seed: int, width: int = 5) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(records, width)).astype(np.float32)
    return inputs, inputs[:, :CLASSES].argmax(1)


def write_spec(folder: Path, **replaced: str) -> Path:
    inputs, labels = made_up(400, seed=1)
    np.savez(folder / "private.npz", x=inputs, y=labels, who=np.arange(400) // 2)
    np.savez(folder / "public.npz", x=made_up(100, seed=2)[0])
    text = SPEC.replace("PRIVATE", str(folder / "private.npz"))
    text = text.replace("PUBLIC", str(folder / "public.npz"))
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "spec.yaml").write_text(text)
    return folder / "spec.yaml"


def dppipe(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def sets(*changes: str) -> list[str]:
    return [word for change in changes for word in ("--set", change)]
