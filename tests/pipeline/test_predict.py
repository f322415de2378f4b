"""Predictions equal the run's own scores, row by row, from raw records in any order."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy
import pyarrow
import pytest
import torch
from pyarrow import parquet
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.learners.inputs.model_inputs import released_transforms, transformed_part
from dppipe.pipeline.load import load_network, spec_of
from dppipe.pipeline.prediction.predictor import class_probabilities
from dppipe.runs.directory import RunDirectory

ROWS = 300
TABLE = """
version: 1
name: table
seed: 3
data:
  kind: {kind}
  path: {path}
  records: 300
  holdout: public
  missing: ["", NA]
  numeric:
    - {{column: age, lower: 0, upper: 100, fill: 50, indicator: true}}
    - {{column: dose, mean: 2, std: 3}}
  categorical:
    - {{column: ward, values: [A, B], absent: category}}
    - {{column: drug, buckets: 5}}
  ordinal: [{{column: pain, values: [low, mid, high]}}]
  boolean: [{{column: smoker}}]
  date: [{{column: seen, earliest: 2020-01-01, latest: 2021-01-01}}]
  target: {target}
  {more}
model: {{kind: mlp, hidden: [8]}}
optimizer: {{kind: sgd, lr: 0.5}}
sampler: {{kind: poisson, sample_rate: 0.2}}
clipping: {{kind: flat, max_grad_norm: 1.0}}
noise: {{kind: constant, noise_multiplier: 1.0}}
accountant: rdp
budget: {{epsilon: 50.0, delta: 1.0e-5}}
train: {{steps: 8}}
"""
CLASSES = "{column: ill, classes: [none, some], mapping: {flu: some, cold: some}}"
NUMBER = "{column: days, mean: 4, std: 2}"
PRIVATE = "normalize: {kind: private, noise_multiplier: 5, lower: -3, upper: 3}"
PCA = "features: {kind: pca, components: 3, max_norm: 5.0, noise_multiplier: 3}"


def made_up_rows() -> list[dict[str, str]]:
    rng = numpy.random.default_rng(0)
    rows = []
    for number in range(ROWS):
        rows.append(
            {
                "id": f"p{number}",
                "ill": ["none", "flu", "cold"][number % 3],
                "days": f"{rng.normal(4, 2):.3f}",
                "age": "NA" if number % 11 == 0 else str(rng.integers(-5, 130)),
                "dose": f"{rng.normal(2, 3):.4f}",
                "ward": ["A", "B", "C", ""][number % 4],
                "drug": f"drug {rng.integers(20)}",
                "pain": ["low", "mid", "high"][rng.integers(3)],
                "smoker": ["yes", "no"][rng.integers(2)],
                "seen": f"2020-0{1 + number % 9}-10",
            }
        )
    return rows


def write(folder: Path, rows: list[dict[str, str]], *, kind: str, names: list[str]) -> Path:
    path = folder / f"{'-'.join(names[:2])}-{len(rows)}.{kind}"
    if kind == "parquet":
        columns = {name: pyarrow.array([row[name] for row in rows]) for name in names}
        parquet.write_table(pyarrow.table(columns), path)
        return path
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def own_scores(run_dir: Path) -> torch.Tensor:
    """Return the network's outputs for all records, computed as the run itself scores them."""
    run = RunDirectory.open(run_dir)
    spec = spec_of(run)
    loaded = transformed_part(spec.data.load(), released_transforms(spec.data, run))
    with torch.inference_mode():
        return load_network(run, spec)(loaded.tensors[0])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("target", "more"),
    [(CLASSES, ""), (NUMBER, ""), (CLASSES, PRIVATE), (CLASSES, PCA)],
    ids=["classes", "number", "private scaling", "pca"],
)
def test_predictions_of_a_table_equal_the_runs_own_scores(tmp_path, kind, target, more):
    rows = made_up_rows()
    path = write(tmp_path, rows, kind=kind, names=list(rows[0]))
    spec = tmp_path / "spec.yaml"
    spec.write_text(TABLE.format(kind=kind, path=path, target=target, more=more))
    done = CliRunner().invoke(app, ["run", str(spec), "--run-dir", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    expected = own_scores(tmp_path / "run")

    inputs = ["seen", "smoker", "pain", "drug", "ward", "dose", "age"]  # no target, another order
    order = numpy.random.default_rng(1).permutation(ROWS)
    other = "csv" if kind == "parquet" else "parquet"  # the other kind of file is read, too
    swapped = [rows[place] for place in order]
    fresh = write(tmp_path, swapped, kind=other, names=inputs)
    out = tmp_path / "predictions.parquet"
    found = CliRunner().invoke(
        app, ["predict", str(tmp_path / "run"), str(fresh), "--out", str(out)]
    )
    assert found.exit_code == 0, found.output
    table = parquet.read_table(out)
    assert table["row"].to_pylist() == list(range(1, ROWS + 1))
    if target is NUMBER:
        numbers = expected[order].flatten() * 2 + 4
        assert table["prediction"].to_pylist() == pytest.approx(numbers.tolist(), abs=1e-5)
        return
    shares = class_probabilities(expected[order].reshape(ROWS, -1), task="binary")
    assert table["probability_some"].to_pylist() == pytest.approx(shares[:, 1].tolist(), abs=1e-6)
    names = ["none", "some"]
    assert table["prediction"].to_pylist() == [names[int(row)] for row in shares.argmax(1)]

    model = dppipe.load_model(tmp_path / "run")
    with torch.inference_mode():
        given = [{name: row[name] for name in inputs} for row in swapped]
        assert torch.allclose(model(given), expected[order], atol=1e-6)


@pytest.mark.parametrize(
    "data",
    [
        "data={kind: digits, holdout: public, normalize: {mean: 0.3, std: 0.5}}",
        "data={kind: digits, holdout: public, normalize: {kind: private, noise_multiplier: 5}}",
        "data={kind: breast_cancer, holdout: public}",
        "data={kind: synthetic, size: 200, features: 4, classes: 3, holdout: public}",
    ],
)
def test_predictions_of_arrays_equal_the_loaded_models(run, tmp_path, data):
    done = run(data, "train.steps=3", "budget.epsilon=1000")
    assert done.exit_code == 0, done.output
    spec = spec_of(RunDirectory.open(done.path))
    raw = numpy.random.default_rng(0).uniform(0, 10, size=(20, *spec.data.input_shape))
    numpy.savez(tmp_path / "new.npz", x=raw)
    found = CliRunner().invoke(app, ["predict", str(done.path), str(tmp_path / "new.npz")])
    assert found.exit_code == 0, found.output
    lines = list(csv.DictReader(found.output.splitlines()))
    with torch.inference_mode():
        outputs = dppipe.load_model(done.path)(torch.tensor(raw, dtype=torch.float32))
    shares = class_probabilities(outputs.reshape(20, -1), task=spec.data.task)
    for line, row in zip(lines, shares, strict=True):
        assert line["prediction"] == str(int(row.argmax()))
        for label, share in enumerate(row.tolist()):
            assert float(line[f"probability_{label}"]) == pytest.approx(share, abs=1e-6)


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = made_up_rows()
    path = write(folder, rows, kind="csv", names=list(rows[0]))
    spec = folder / "spec.yaml"
    spec.write_text(TABLE.format(kind="csv", path=path, target=CLASSES, more=""))
    done = CliRunner().invoke(app, ["run", str(spec), "--run-dir", str(folder / "run")])
    assert done.exit_code == 0, done.output
    return folder / "run"


def test_a_broken_row_is_named_and_nothing_is_written(table_run, tmp_path):
    rows = made_up_rows()[:5]
    rows[3]["dose"] = "secret"
    fresh = write(tmp_path, rows, kind="csv", names=list(rows[0]))
    out = tmp_path / "out.csv"
    found = CliRunner().invoke(app, ["predict", str(table_run), str(fresh), "--out", str(out)])
    assert found.exit_code == 2
    assert "line 5" in found.output
    assert "secret" not in found.output.replace("private record", "")
    assert list(tmp_path.iterdir()) == [fresh]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.csv"], "expected a file of records"),
        (["new.csv", "--out", "out.txt"], "ends in .parquet or .csv"),
        (["new.csv", "--out", "new.csv"], "expected a new file"),
        (["empty.csv"], "expected records, got none"),
        (["few.csv"], "which isn't there"),
    ],
)
def test_mistakes_are_named(table_run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    rows = made_up_rows()[:3]
    write(tmp_path, rows, kind="csv", names=list(rows[0])).rename("new.csv")
    write(tmp_path, rows, kind="csv", names=["age", "dose"]).rename("few.csv")
    Path("empty.csv").write_text(",".join(rows[0]) + "\n")
    found = CliRunner().invoke(app, ["predict", str(table_run), *words])
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())


def test_rows_with_an_unknown_column_are_refused(table_run):
    model = dppipe.load_model(table_run)
    with pytest.raises(dppipe.errors.UsageError, match="got none named dose"):
        model([{"age": "1"}])
