"""Mistakes in the options of learners without steps: one message each, at its own place."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app

SPEC = """\
version: 1
name: mistaken
data:
  kind: breast_cancer
  FEATURES
model: logistic
learner: LEARNER
accountant: ACCOUNTANT
budget: {epsilon: 1.0, delta: 1.0e-5}
"""
OBJECTIVE = "objective_perturbation"


def planned(folder: Path, learner: str, *, features: str = "null", accountant: str = "pld") -> str:
    text = SPEC.replace("FEATURES", f"features: {features}").replace("LEARNER", learner)
    (folder / "spec.yaml").write_text(text.replace("ACCOUNTANT", accountant))
    done = CliRunner().invoke(app, ["plan", str(folder / "spec.yaml")])
    assert done.exit_code in (2, 3), done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize("learner", ["[mean]", "null", "{max_norm: 3.0}"])
def test_a_learner_without_a_kind_is_the_only_problem(tmp_path: Path, learner: str) -> None:
    output = planned(tmp_path, learner)
    assert "spec.yaml:7:" in output
    assert output.count("expected") == 1, output


def test_each_candidate_that_is_missing_has_its_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.pt").write_bytes(b"")
    files = "[gone.pt, here.pt, lost.pt]"
    output = planned(tmp_path, f"{{kind: exponential, loss_bound: 1.0, candidates: {files}}}")
    line = (tmp_path / "spec.yaml").read_text().splitlines()[6]
    for name in ("gone", "lost"):
        column = line.index(name) + 1
        assert f"spec.yaml:7:{column}: learner.candidates." in output, output
        assert f"got {name}.pt, which isn't there in the working directory" in output
    assert output.count("isn't there") == 2


def test_the_bare_name_of_features_that_need_options_says_which(tmp_path: Path) -> None:
    output = planned(tmp_path, OBJECTIVE, features="pca")
    assert "spec.yaml:5:13: data.features: expected a block with kind, components and" in output
    assert "got 'pca' alone" in output


def test_an_accountant_without_a_proof_is_refused_at_its_line(tmp_path: Path) -> None:
    output = planned(tmp_path, OBJECTIVE, accountant="zcdp")
    assert "spec.yaml:8:13: accountant: expected one with a proof, got zcdp: no proof for" in output
    assert "pld and rdp have one" in output
