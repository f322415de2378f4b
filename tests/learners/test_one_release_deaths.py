"""Runs of mean and exponential that are killed around their release: charged once, drawn once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from killing import after, die
from learners.killed_runs import assert_refused_as_lost, assert_taken_as_saved, killed_at
from learners.small_learners import write_spec
from learners.test_perturbed_runs import dppipe

from dppipe.randomness.exponential import ExponentialStream
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.gumbel import GumbelStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.released import ReleasedValues
from dppipe.runs.verify import verify_ledger

DEATHS: dict[str, list[tuple[Any, str, Any]]] = {
    "before its row": [(Ledger, "charge", die)],
    "after its row": [(Ledger, "charge", after(Ledger.charge))],
    "before its noise": [
        (GaussianStream, "add_", die),
        (GumbelStream, "draw", die),
        (ExponentialStream, "draw", die),
    ],
    "before it is saved": [(ReleasedValues, "save", die)],
    "after it is saved": [(ReleasedValues, "save", after(ReleasedValues.save))],
}
KINDS = ["mean", "exponential", "permute_and_flip"]
LOST = [
    ("mean", "after its row"),
    ("mean", "before its noise"),
    ("exponential", "before its noise"),
    ("permute_and_flip", "before its noise"),
    ("exponential", "before it is saved"),
]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "store" / "budgets.db"))


def killed(folder: Path, kind: str, instant: str) -> Path:
    """Run in a process of its own, which is killed at this instant."""
    path = write_spec(folder, "mean" if kind == "mean" else "exponential")
    changes = [] if kind == "mean" else [f"learner.mechanism={kind}"]
    return killed_at(DEATHS[instant], path, *changes)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which streams draw noise in this process."""
    asked: list[str] = []
    for stream, method in (
        (GaussianStream, "add_"),
        (GumbelStream, "draw"),
        (ExponentialStream, "draw"),
    ):
        usual = getattr(stream, method)

        def noted(self: Any, *args: Any, usual: Any = usual, **others: Any) -> Any:
            asked.append(type(self).__name__)
            return usual(self, *args, **others)

        monkeypatch.setattr(stream, method, noted)
    return asked


@pytest.mark.parametrize(("kind", "instant"), LOST)
def test_a_release_that_was_charged_and_lost_is_not_drawn_again(
    tmp_path: Path, drawn: list[str], kind: str, instant: str
) -> None:
    run = killed(tmp_path, kind, instant)
    assert_refused_as_lost(run)
    assert drawn == []
    assert verify_ledger(run).charged == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_before_its_charge_pays_once(
    tmp_path: Path, drawn: list[str], kind: str
) -> None:
    run = killed(tmp_path, kind, "before its row")
    assert (run / "ledger.jsonl").read_bytes() == b""
    assert dppipe("resume", str(run)).exit_code == 0
    streams = {"mean": "GaussianStream", "exponential": "GumbelStream"}
    assert drawn == [streams.get(kind, "ExponentialStream")]
    assert verify_ledger(run).charged == 1
    assert verify_ledger(run).intact


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_saved_release_is_taken_as_it_is(tmp_path: Path, drawn: list[str], kind: str) -> None:
    run = killed(tmp_path, kind, "after it is saved")
    assert_taken_as_saved(run)
    assert drawn == []


def test_a_choice_is_not_taken_from_other_files(tmp_path: Path) -> None:
    run = killed(tmp_path, "exponential", "after it is saved")
    (tmp_path / "bad.pt").write_bytes((tmp_path / "good.pt").read_bytes())
    done = dppipe("resume", str(run))
    assert done.exit_code == 3
    assert "that the plan has hashed, got others" in " ".join(done.output.split())
    assert not (run / "checkpoints" / "final.ckpt").exists()
