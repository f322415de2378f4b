"""Runs of linear regression that are killed around their release: charged once, and drawn once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from killing import after, die
from learners import test_perturbed_deaths
from learners.killed_runs import killed_at
from learners.test_perturbed_runs import dppipe
from learners.test_regression_runs import write_spec

from dppipe.learners.regression import moments
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.released import ReleasedValues
from dppipe.runs.verify import verify_ledger

drawn = test_perturbed_deaths.drawn

DEATHS: dict[str, tuple[Any, str, Any]] = {
    "before its row": (Ledger, "charge", die),
    "while it is summed": (moments, "sum_moments", die),
    "before its noise": (GaussianStream, "add_", die),
    "before it is saved": (ReleasedValues, "save", die),
    "after it is saved": (ReleasedValues, "save", after(ReleasedValues.save)),
}


def killed(folder: Path, instant: str, method: str) -> Path:
    """Run in a process of its own, which is killed at this instant."""
    return killed_at(DEATHS[instant], write_spec(folder), f"learner.method={method}")


@pytest.mark.parametrize("instant", ["before its noise", "before it is saved"])
def test_sums_that_were_charged_and_lost_are_not_released_again(
    tmp_path: Path,
    drawn: list[float],
    instant: str,
) -> None:
    run = killed(tmp_path, instant, "adassp")
    rows = (run / "ledger.jsonl").read_bytes()
    done = dppipe("resume", str(run))
    assert done.exit_code == 3, done.output
    assert "ledger.jsonl:1: the release 'moments' was charged" in " ".join(done.output.split())
    assert drawn == []
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert verify_ledger(run).charged == 1
    assert not (run / "checkpoints" / "final.ckpt").exists()


def test_a_run_killed_before_its_charge_pays_once(
    tmp_path: Path,
    drawn: list[float],
) -> None:
    run = killed(tmp_path, "before its row", "joint")
    assert (run / "ledger.jsonl").read_bytes() == b""
    assert dppipe("resume", str(run)).exit_code == 0
    assert len(drawn) == 1
    assert verify_ledger(run).charged == 1
    assert verify_ledger(run).intact


def test_a_run_killed_while_it_sums_leaves_no_value(tmp_path: Path) -> None:
    run = killed(tmp_path, "while it is summed", "joint")
    assert not (run / "released").exists()
    assert len((run / "ledger.jsonl").read_text().splitlines()) <= 1


@pytest.mark.parametrize("method", ["joint", "adassp"])
def test_sums_that_were_saved_are_read_back_and_not_computed_again(
    tmp_path: Path,
    drawn: list[float],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    run = killed(tmp_path, "after it is saved", method)
    rows = (run / "ledger.jsonl").read_bytes()
    value = (run / "released" / "0001.pt").read_bytes()
    monkeypatch.setattr(moments, "sum_moments", die)
    assert dppipe("resume", str(run)).exit_code == 0
    assert drawn == []
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert (run / "released" / "0001.pt").read_bytes() == value
    assert (run / "checkpoints" / "final.ckpt").exists()
