"""For every data kind and every form of scaling, predictions from raw records are the run's own.

The records come in another order, with swapped columns and without targets.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import yaml
from contracts.options import variants
from contracts.raw_records import RAW
from pyarrow import parquet
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.data.base import Splits
from dppipe.learners.inputs.model_inputs import released_transforms, transformed_part
from dppipe.pipeline.load import load_network, spec_of
from dppipe.pipeline.prediction.predictor import class_probabilities
from dppipe.runs.directory import RunDirectory
from dppipe.spec.kinds.registry import Registry

REGISTRY = Registry()
KINDS = sorted(REGISTRY.kinds("data"))
OWN_CLASS = {
    "class_path": "dppipe.data.Digits",
    "init_args": {"normalize": {"kind": "private", "noise_multiplier": 3}},
}
CONSTANTS = {"mean": 0.3, "std": 0.5}
MOMENTS = {"kind": "private", "noise_multiplier": 3, "lower": -3, "upper": 50}
HISTOGRAMS = {"kind": "private", "noise_multiplier": 3, "lower": -3, "upper": 50, "bins": 16}
PCA = {"kind": "pca", "components": 1, "max_norm": 5.0, "noise_multiplier": 3}
ORIENTATIONS = {"kind": "orientation_histograms", "cells": [2], "cache": False}
IMAGES = ("digits", "idx")
TABLES = ("csv", "parquet")
SPEC: dict[str, Any] = {
    "version": 1,
    "name": "contract",
    "seed": 3,
    "model": "logistic",
    "optimizer": {"kind": "sgd", "lr": 0.5},
    "sampler": {"kind": "poisson", "sample_rate": 0.5},
    "noise": {"kind": "constant", "noise_multiplier": 1.0},
    "accountant": "rdp",
    "budget": {"epsilon": 1000.0, "delta": 1e-5},
    "train": {"steps": 2},
}


def ways(kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Return each form of scaling that a kind has, with its options."""
    fields = REGISTRY.load("data", kind).model_fields
    found: list[tuple[str, dict[str, Any]]] = [("plain", {})]
    if "normalize" in fields and kind not in TABLES:
        found.append(("constants", {"normalize": CONSTANTS}))
    if "normalize" in fields:
        found.append(("moments", {"normalize": MOMENTS}))
        found.append(("histograms", {"normalize": HISTOGRAMS}))
    has_features = "features" in fields and kind not in ("class_path", "synthetic")
    if has_features:
        found.append(("pca", {"features": PCA}))
    if has_features and "normalize" in fields:
        found.append(("moments, then pca", {"normalize": MOMENTS, "features": PCA}))
    if kind in IMAGES:
        found.append(("orientations", {"normalize": CONSTANTS, "features": ORIENTATIONS}))
    if kind == "class_path":
        found.append(("own kind", OWN_CLASS))
    return found


def cases() -> Iterator[Any]:
    """Yield each kind with each way; some ways of similar kinds take their time apart."""
    for kind in KINDS:
        for way, options in ways(kind):
            alike = way in ("histograms", "moments, then pca") and kind not in ("npz", "csv")
            marks = [pytest.mark.slow] if alike else []
            yield pytest.param(kind, options, id=f"{kind}-{way}", marks=marks)


def run_of(kind: str, options: dict[str, Any], folder: Path) -> Path:
    """Run a spec of two steps on a data kind; return its directory."""
    (written, *_) = variants("data", kind, folder)
    data = options if "class_path" in options else {**written, **options}
    data = {"kind": kind, "holdout": "public", **data}
    model = "text_bag" if kind == "text" else "logistic"
    (folder / "spec.yaml").write_text(yaml.safe_dump({**SPEC, "data": data, "model": model}))
    done = CliRunner().invoke(app, ["run", "spec.yaml", "--run-dir", "run"])
    assert done.exit_code == 0, done.output
    return folder / "run"


def own_scores(path: Path) -> torch.Tensor:
    """Return the network's outputs for all records, as the run itself scores them."""
    run = RunDirectory.open(path)
    spec = spec_of(run)
    read: Any = spec.data.load()
    records = read.train if isinstance(read, Splits) else read
    transforms = released_transforms(spec.data, run)
    if transforms:
        records = transformed_part(records, transforms)
    inputs = torch.stack([torch.as_tensor(records[place][0]) for place in range(len(records))])
    with torch.inference_mode():
        return load_network(run, spec)(inputs).reshape(len(inputs), -1)


@pytest.mark.parametrize(("kind", "options"), list(cases()))
def test_predictions_of_raw_records_are_the_runs_own(
    kind: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    path = run_of(kind, options, tmp_path)
    data = spec_of(RunDirectory.open(path)).data
    scores = own_scores(path)
    order = numpy.random.default_rng(1).permutation(len(scores))
    expected = scores[order]
    assert kind in RAW, f"{kind}: say in raw_records.py how a new file of it is written"
    new, given = RAW[kind](data, order.tolist(), tmp_path)

    with torch.inference_mode():
        found = dppipe.load_model(path)(given).reshape(len(order), -1)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)

    done = CliRunner().invoke(app, ["predict", "run", str(new), "--out", "predictions.parquet"])
    assert done.exit_code == 0, done.output
    predicted = parquet.read_table("predictions.parquet")
    assert predicted["row"].to_pylist() == list(range(1, len(order) + 1))
    if not data.class_labels:
        numbers = data.in_units_of_the_target(expected.double().numpy())[:, 0]
        assert predicted["prediction"].to_pylist() == pytest.approx(numbers, rel=1e-6, abs=1e-6)
        return
    shares = class_probabilities(expected, task=data.task)
    for label, share in zip(data.class_labels, shares.T.tolist(), strict=True):
        column = predicted[f"probability_{label}"].to_pylist()
        assert column == pytest.approx(share, rel=1e-6, abs=1e-6)
    chosen = [data.class_labels[place] for place in shares.argmax(dim=1).tolist()]
    assert predicted["prediction"].to_pylist() == chosen
