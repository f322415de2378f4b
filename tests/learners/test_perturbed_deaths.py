"""Runs of perturbed learners that are killed around their release: charged once, and drawn once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from killing import after, die
from learners.killed_runs import (
    assert_refused_as_lost,
    assert_taken_as_saved,
    killed_at,
)
from learners.test_perturbed_runs import dppipe, write_spec

from dppipe.learners.perturbation import solver
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.released import ReleasedValues
from dppipe.runs.verify import verify_ledger

DEATHS: dict[str, tuple[Any, str, Any]] = {
    "before its row": (Ledger, "charge", die),
    "after its row": (Ledger, "charge", after(Ledger.charge)),
    "before its noise": (GaussianStream, "add_", die),
    "while it is solved": (solver, "minimise", die),
    "before it is saved": (ReleasedValues, "save", die),
    "after it is saved": (ReleasedValues, "save", after(ReleasedValues.save)),
}
KINDS = ["objective_perturbation", "output_perturbation"]
LOST = [
    ("objective_perturbation", "after its row"),
    ("objective_perturbation", "before its noise"),
    ("objective_perturbation", "while it is solved"),
    ("objective_perturbation", "before it is saved"),
    ("output_perturbation", "before its noise"),
]


def killed(folder: Path, kind: str, instant: str) -> Path:
    return killed_at(DEATHS[instant], write_spec(folder, kind))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Note the noise that is drawn in this process."""
    asked: list[float] = []
    usual = GaussianStream.add_

    def noted(self: Any, flat: Any, std: float, **others: Any) -> Any:
        asked.append(std)
        return usual(self, flat, std, **others)

    monkeypatch.setattr(GaussianStream, "add_", noted)
    return asked


@pytest.mark.parametrize(("kind", "instant"), LOST)
def test_a_release_that_was_charged_and_lost_is_not_drawn_again(
    tmp_path: Path, drawn: list[float], kind: str, instant: str
) -> None:
    run = killed(tmp_path, kind, instant)
    assert_refused_as_lost(run)
    assert drawn == []
    assert verify_ledger(run).charged == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_before_its_charge_pays_once(
    tmp_path: Path, drawn: list[float], kind: str
) -> None:
    run = killed(tmp_path, kind, "before its row")
    assert (run / "ledger.jsonl").read_bytes() == b""
    assert dppipe("resume", str(run)).exit_code == 0
    assert len(drawn) == {"objective_perturbation": 2, "output_perturbation": 1}[kind]
    assert verify_ledger(run).charged == 1
    assert verify_ledger(run).intact


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_release_is_taken_as_it_is(tmp_path: Path, drawn: list[float], kind: str) -> None:
    run = killed(tmp_path, kind, "after it is saved")
    assert_taken_as_saved(run)
    assert drawn == []
