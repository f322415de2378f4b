"""`dppipe audit` as a command: what it prints and writes, how it ends, and that it reads nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app

# There is no such file: an audit that read a record would fail.
SPEC = """
version: 1
name: small
data:
  kind: csv
  path: no_such_file.csv
  records: 200
  numeric: [{column: a, lower: 0, upper: 1}, {column: b, lower: 0, upper: 1}]
  target: {column: y, classes: [x, y, z]}
model: logistic
optimizer: {kind: sgd, lr: 0.5}
sampler: full_batch
clipping: {kind: flat, max_grad_norm: 1.0}
noise: {kind: constant, noise_multiplier: 0.7}
accountant: pld
budget: {epsilon: 500.0, delta: 1.0e-5}
train: {steps: 10}
"""
MISUSE = [
    (["--number", "5"], "--number: expected --one-run beside it"),
    (["--canaries", "inputs"], "--canaries: expected --one-run beside it"),
    (["--on-data"], "--on-data: expected --one-run beside it"),
    (["--one-run", "--runs", "5"], "--runs: expected it without --one-run"),
    (["--set", "budget=none"], "budget"),
    (["--set", "noise.noise_multiplierr=2"], "noise_multiplier"),
]


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    return Path("spec.yaml")


def audit(*words: str):
    return CliRunner().invoke(app, ["audit", *words])


def test_an_audit_reads_nothing_and_writes_what_it_says(spec):
    found = audit(str(spec), "--out", "found")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].startswith("small: no contradiction; would have found")
    assert len(lines) <= 12
    assert all(len(line) <= 100 for line in lines)
    written = {path.name for path in Path("found").iterdir()}
    assert {"audit.json", "audit.md", "bounds.png"} <= written
    data = json.loads(Path("found/audit.json").read_text())
    assert {probe["probe"] for probe in data["probes"]} >= {"influence", "noise", "fit", "sampler"}
    assert data["verdict"] in Path("found/audit.md").read_text()
    assert "passed" not in found.stdout + Path("found/audit.md").read_text()


def test_a_rejected_claim_ends_with_exit_code_four(spec, monkeypatch):
    from dppipe.randomness.gaussian import GaussianStream

    true_noise = GaussianStream.add_

    def halved(self, flat, std, **options):
        return true_noise(self, flat, std / 2, **options)

    monkeypatch.setattr(GaussianStream, "add_", halved)
    found = audit(str(spec), "--json")
    assert found.exit_code == 4
    data = json.loads(found.stdout)
    assert data["verdict"].startswith("CLAIM REJECTED (p ")
    rejected = {probe["probe"] for probe in data["probes"] if probe["rejected"]}
    assert {"noise", "fit"} <= rejected


@pytest.mark.parametrize(("words", "message"), MISUSE, ids=[words[0] for words, _ in MISUSE])
def test_options_that_contradict_are_named_before_anything_runs(spec, words, message):
    found = audit(str(spec), *words)
    assert found.exit_code in (2, 3), found.output
    assert message in found.output
    assert list(Path().iterdir()) == [spec]


def test_an_ordinary_run_is_audited_at_its_last_weights(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("sampler=full_batch", "noise.noise_multiplier=0.7", "budget.epsilon=500")
    assert done.exit_code == 0, done.output
    before = {path: path.read_bytes() for path in done.path.rglob("*") if path.is_file()}
    found = audit(str(done.path), "--out", "found")
    assert found.exit_code == 0, found.output
    assert "no contradiction" in found.stdout
    assert {path: path.read_bytes() for path in done.path.rglob("*") if path.is_file()} == before


def test_a_run_directory_takes_no_options_of_a_spec(run):
    done = run("train.steps=2")
    assert audit(str(done.path), "--one-run").exit_code == 2
    assert audit(str(done.path), "--set", "seed=1").exit_code == 2


def test_a_learner_without_a_probe_is_not_called_audited(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = Path(__file__).parents[2] / "pipelines" / "learners" / "pate.yaml"
    found = audit(str(recipe))
    assert found.exit_code == 0, found.output
    assert "no probe" in found.stdout
    assert "audited" not in found.stdout.replace("not audited", "")
