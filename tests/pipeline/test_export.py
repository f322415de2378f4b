"""Exported models compute what the run's own model computes, and their cards claim what it claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app

PRIVATE = "{kind: private, noise_multiplier: 5, lower: 0, upper: 1}"
DIGITS = f"data={{kind: digits, holdout: public, normalize: {PRIVATE}}}"
TABLE = """data={kind: csv, path: PATH, records: 30, holdout: public,
  numeric: [{column: age, lower: 0, upper: 60, fill: 30, indicator: true}],
  categorical: [{column: town, values: [A, B], other: category}, {column: job, buckets: 3}],
  target: {column: ill, classes: ["no", "yes"]}}"""


def export(*words: Any) -> Any:
    return CliRunner().invoke(app, ["export", *map(str, words)])


def answers(path: Path, inputs: Any) -> torch.Tensor:
    """Return what onnxruntime computes from the graph."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(["outputs"], {"inputs": numpy.asarray(inputs)})
    return torch.from_numpy(found)


def assert_same_graph(run_dir: Path, out: Path, inputs: torch.Tensor) -> None:
    """Export a run and compare the graph with `load_model`, for one row and for all."""
    done = export(run_dir, "--format", "onnx", "--out", out)
    assert done.exit_code == 0, done.output
    with torch.inference_mode():
        expected = dppipe.load_model(run_dir)(inputs)
    torch.testing.assert_close(answers(out, inputs), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(answers(out, inputs[:1]), expected[:1], rtol=1e-5, atol=1e-5)


def write_table(folder: Path) -> Path:
    rows = ["age,town,job,ill"]
    for row in range(30):
        age = "" if row % 5 == 0 else 20 + 3 * row
        rows.append(f"{age},{'ABC'[row % 3]},j{row % 7},{'yes' if row % 2 else 'no'}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    return folder / "table.csv"


def test_the_graph_of_raw_images_computes_what_the_loaded_model_does(run, tmp_path):
    done = run(DIGITS, "train.steps=3", "model={kind: mlp, hidden: [8]}", "budget.epsilon=1000")
    assert done.exit_code == 0, done.output
    raw = torch.randint(17, (9, 1, 8, 8), generator=torch.Generator().manual_seed(0)).float()
    assert_same_graph(done.path, tmp_path / "digits.onnx", raw)
    import onnx

    found = {each.key: each.value for each in onnx.load(tmp_path / "digits.onnx").metadata_props}
    summary = done.summary
    assert float(found["dppipe.epsilon"]) >= summary["epsilon"]
    assert found["dppipe.relation"] == summary["relation"]


FEATURES = [
    "features: {kind: orientation_histograms, cells: [2, 3], cache: false}",
    "features: {kind: pca, components: 4, max_norm: 5.0, noise_multiplier: 3}",
    f"normalize: {PRIVATE}, features: {{kind: pca, components: 4, max_norm: 5.0, noise_multiplier: 3}}",
]


@pytest.mark.slow
@pytest.mark.parametrize("features", FEATURES)
def test_features_are_in_the_graph(run, tmp_path, features):
    data = f"data={{kind: digits, holdout: public, {features}}}"
    done = run(data, "train.steps=3", "budget.epsilon=1000")
    assert done.exit_code == 0, done.output
    raw = torch.randint(17, (300, 1, 8, 8), generator=torch.Generator().manual_seed(0)).float()
    assert_same_graph(done.path, tmp_path / "digits.onnx", raw)


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner",
    [
        "{kind: linear_regression, method: joint}",
        "{kind: output_perturbation, regularization: 0.1}",
        "{kind: objective_perturbation, regularization: 0.1}",
    ],
)
def test_graphs_of_other_learners_compute_what_their_models_do(tmp_path, learner):
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "version: 1\nname: other\nseed: 1\n"
        "data: {kind: breast_cancer, holdout: public}\n"
        f"learner: {learner}\nmodel: logistic\n"
        "budget: {epsilon: 5.0, delta: 1.0e-5}\n"
    )
    done = CliRunner().invoke(app, ["run", str(spec), "--run-dir", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    raw = torch.rand(20, 30, generator=torch.Generator().manual_seed(0)) * 100
    assert_same_graph(tmp_path / "run", tmp_path / "other.onnx", raw)


def encode(facts: dict[str, Any], row: dict[str, str]) -> list[float]:
    """Encode a row by the JSON beside a graph alone."""
    import hashlib

    numbers = [0.0] * facts["shape"][0]
    for column in facts["columns"]:
        first, *_ = column["inputs"]
        text = row[column["column"]]
        missing = text in facts["missing"]
        if column["kind"] == "numeric":
            numbers[first] = column["fill"] if missing else float(text)
        elif column["kind"] == "indicator":
            numbers[first] = float(missing)
        elif "buckets" in column:
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            numbers[first + int.from_bytes(digest, "big") % column["buckets"]] = 1.0
        elif text in column["values"]:
            numbers[first + column["values"].index(text)] = 1.0
        else:
            numbers[first + len(column["values"])] = 1.0
    return numbers


@pytest.mark.slow
def test_a_row_that_is_encoded_by_the_json_beside_a_graph_is_scored_as_the_row_itself(
    run, tmp_path
):
    path = write_table(tmp_path)
    done = run(TABLE.replace("PATH", str(path)).replace("\n", " "), "sampler.sample_rate=0.5")
    assert done.exit_code == 0, done.output
    out = tmp_path / "table.onnx"
    assert export(done.path, "--format", "onnx", "--out", out).exit_code == 0
    facts = json.loads((tmp_path / "table.onnx.json").read_text())
    assert "table.onnx.json" in (tmp_path / "table.onnx.md").read_text()
    rows = [
        {"age": "", "town": "A", "job": "j1"},
        {"age": "99", "town": "Z", "job": "new"},
        {"age": "31.5", "town": "B", "job": "j2"},
    ]
    encoded = numpy.array([encode(facts, row) for row in rows], dtype=numpy.float32)
    with torch.inference_mode():
        expected = dppipe.load_model(done.path)(rows)
    torch.testing.assert_close(answers(out, encoded), expected, rtol=1e-5, atol=1e-5)


def test_the_weights_load_under_their_own_names_with_the_claim_in_the_header(run, tmp_path):
    done = run("data.holdout=private")
    out = tmp_path / "model.safetensors"
    assert export(done.path, "--format", "safetensors", "--out", out).exit_code == 0
    weights = done.weights()
    found = load_file(out)
    assert found.keys() == weights.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, weights[name])
    with safe_open(out, "pt") as file:
        metadata = file.metadata()
    assert metadata["dppipe.unit"] == "example"
    assert metadata["dppipe.delta"] == "1e-05"
    card = (tmp_path / "model.safetensors.md").read_text()
    statement = json.loads((done.path / "privacy.json").read_text())
    assert f"| epsilon | {statement['epsilon']:g} (rounded up) |" in card
    assert f"**{statement['guarantee'][0]}**" in card
    for sentence in statement["not_covered"].values():
        assert sentence in card
    # Scores on a private holdout don't travel with the model.
    assert done.summary["metrics"]
    assert "accuracy" not in card


def test_a_baseline_is_called_not_private_and_a_failed_run_has_no_claim(run, tmp_path):
    baseline = run("budget=none")
    out = tmp_path / "baseline.safetensors"
    assert export(baseline.path, "--format", "safetensors", "--out", out).exit_code == 0
    card = (tmp_path / "baseline.safetensors.md").read_text()
    assert "**NOT PRIVATE" in card
    assert "epsilon" not in card

    failed = run()
    for name in ("summary.json", "privacy.json"):
        data = json.loads((failed.path / name).read_text())
        data["status"] = "failed"
        if name == "privacy.json":
            sentences = ["NO CLAIM: this run ended by an error.", "Don't release it."]
            data |= {"status_of_claim": "failed", "protects": False, "guarantee": sentences}
        (failed.path / name).write_text(json.dumps(data))
    out = tmp_path / "failed.safetensors"
    assert export(failed.path, "--format", "safetensors", "--out", out).exit_code == 0
    card = (tmp_path / "failed.safetensors.md").read_text()
    assert "**NO CLAIM" in card
    assert "epsilon" not in card
    with safe_open(out, "pt") as file:
        assert "dppipe.epsilon" not in file.metadata()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    from small_runs import SPEC

    folder = tmp_path_factory.mktemp("finished")
    (folder / "spec.yaml").write_text(SPEC)
    done = CliRunner().invoke(
        app, ["run", str(folder / "spec.yaml"), "--run-dir", str(folder / "run")]
    )
    assert done.exit_code == 0, done.output
    return folder / "run"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN", "--format", "onx"], "Did you mean 'onnx'?"),
        (["RUN", "--format", "safetensors", "--out", "there.bin"], "expected a new file"),
        (["RUN", "--format", "safetensors", "--out", "card.bin"], "card.bin.md, which is there"),
        (["RUN", "--format", "safetensors", "--out", "no/x.bin"], "No such file or directory"),
        (["nowhere", "--format", "safetensors"], "expected a run directory"),
        (["RUN"], "--format"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(finished, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    Path("there.bin").write_text("kept")
    Path("card.bin.md").write_text("kept")
    done = export(*[finished if word == "RUN" else word for word in words])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert {path.name for path in Path().iterdir()} == {"there.bin", "card.bin.md"}
    assert Path("there.bin").read_text() == "kept"


def test_a_statement_that_claims_less_than_the_summary_is_refused(run, tmp_path):
    done = run()
    path = done.path / "privacy.json"
    statement = json.loads(path.read_text())
    path.write_text(json.dumps(statement | {"epsilon": 0.1}))
    found = export(done.path, "--format", "safetensors", "--out", tmp_path / "x")
    assert found.exit_code == 2
    assert "got another epsilon" in " ".join(found.output.split())
    assert not (tmp_path / "x").exists()


def test_exported_weights_are_still_known_as_those_of_a_private_run(run, tmp_path):
    first = run()
    out = tmp_path / "weights.safetensors"
    assert export(first.path, "--format", "safetensors", "--out", out).exit_code == 0
    second = run(f"model={{kind: logistic, pretrained: {out}}}", "budget.epsilon=30")
    assert second.exit_code == 0, second.output
    assert second.summary["epsilon"] > first.summary["epsilon"] * 1.1
    plan = json.loads((second.path / "plan.json").read_text())
    assert len(plan["earlier"]["runs"]) == 1
