"""`dppipe tune --on`: settings from public records; nothing of the spec's own records is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pipeline.tuning.searches import command, write_spec

from dppipe.data.synthetic import Synthetic
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec import load_spec

OTHER = """
version: 1
name: other
data: {kind: breast_cancer, public: true}
model: logistic
optimizer: {kind: sgd, lr: 0.1}
sampler: {kind: poisson, expected_batch_size: 64}
budget: none
train: {epochs: 1}
"""
SHORT = ("steps: 3, checkpoint_every: 2", "steps: 2")
SCOPED = ("delta: 1.0e-5}", "delta: 1.0e-5, scope: shared}")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.yaml"
    path.write_text(OTHER)
    return path


def test_all_scores_are_shown_and_the_best_settings_make_a_spec_of_one_run(
    tmp_path: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(data: Synthetic) -> None:
        raise AssertionError("the spec's own records were read")

    monkeypatch.setattr(Synthetic, "load", load)
    spec = write_spec(tmp_path, SHORT, SCOPED)  # a scope that isn't there would refuse a charge
    written = tmp_path / "tuned.yaml"
    words = ("tune", str(spec), "--on", str(other), "--output", str(written))
    found = json.loads(command(*words, "--json"))
    assert [one["overrides"] for one in found["candidates"]] == [
        {"optimizer.lr": 0.1},
        {"optimizer.lr": 0.5},
    ]
    best = max(found["candidates"], key=lambda one: one["accuracy"])
    assert found["best"] == best["overrides"]
    made = load_spec(written)
    own = load_spec(spec)
    assert made.tune is None
    assert (made.data, made.budget) == (own.data, own.budget)
    assert made.optimizer is not None
    assert made.optimizer.lr == best["overrides"]["optimizer.lr"]
    assert "expected a new file" in command(*words, code=2)


def test_records_that_may_need_protection_are_refused(tmp_path: Path, other: Path) -> None:
    spec = write_spec(
        tmp_path, ("kind: synthetic, size: 300, features: 4, classes: 3, ", "kind: digits, ")
    )
    (tmp_path / "own").mkdir()
    made_up = write_spec(tmp_path / "own")
    other.write_text(OTHER.replace(", public: true", ""))
    said = command("tune", str(spec), "--on", str(other), code=3)
    assert "expected data that is declared public" in " ".join(said.split())
    said = command("tune", str(made_up), "--on", str(other), code=3)
    assert "expected data that is declared public" in " ".join(said.split())
    other.write_text(OTHER.replace("breast_cancer", "digits"))
    said = command("tune", str(spec), "--on", str(other), code=3)
    assert "other records than the spec's own" in " ".join(said.split())
    assert not list(tmp_path.glob("*.tuned.yaml"))


def test_a_statement_repeats_that_data_is_declared_public(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        "version: 1\nname: mean\ndata: {kind: synthetic, public: true}\n"
        "learner: {kind: mean, max_norm: 1.0}\nbudget: {epsilon: 1.0, delta: 1.0e-5}\n"
    )
    run = tmp_path / "run"
    command("run", str(path), "--run-dir", str(run))
    assert "`data.public: true`" in (run / "privacy.md").read_text()
    assert "public_data" in json.loads((run / "privacy.json").read_text())["not_covered"]
    path.write_text(path.read_text().replace(", public: true", ""))
    plan = make_plan(load_spec(path))
    assert "public" not in json.loads(plan.to_json())["data"]
