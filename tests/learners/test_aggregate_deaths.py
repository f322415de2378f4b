"""Runs of subsample and aggregate that are killed around their release: drawn once, or never."""

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
from learners.test_aggregate_runs import write_spec
from learners.test_perturbed_runs import dppipe

from dppipe.learners.aggregation import estimates
from dppipe.learners.gating import medians
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.released import ReleasedValues
from dppipe.runs.verify import verify_ledger

DEATHS: dict[str, tuple[Any, str, Any]] = {
    "before its row": (Ledger, "charge", die),
    "after its row": (Ledger, "charge", after(Ledger.charge)),
    "before its noise": (GaussianStream, "add_", die),
    "before its medians": (medians, "select_medians", die),
    "after it is saved": (ReleasedValues, "save", after(ReleasedValues.save)),
}


def killed(folder: Path, aggregate: str, instant: str) -> Path:
    return killed_at(DEATHS[instant], write_spec(folder), f"learner.aggregate={aggregate}")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note each block that is estimated in this process."""
    seen: list[int] = []
    usual = estimates.estimate_or_origin

    def noted(estimator: Any, block: Any) -> Any:
        seen.append(block.number)
        return usual(estimator, block)

    monkeypatch.setattr(estimates, "estimate_or_origin", noted)
    return seen


@pytest.mark.parametrize(
    ("aggregate", "instant"),
    [
        ("mean", "after its row"),
        ("mean", "before its noise"),
        ("median", "before its medians"),
    ],
)
def test_a_release_that_was_charged_and_lost_is_not_drawn_again(
    tmp_path: Path, computed: list[int], aggregate: str, instant: str
) -> None:
    run = killed(tmp_path, aggregate, instant)
    assert_refused_as_lost(run)
    assert computed == []
    assert verify_ledger(run).charged == (1 if aggregate == "mean" else 13)


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_a_run_killed_before_its_charge_pays_once(
    tmp_path: Path, computed: list[int], aggregate: str
) -> None:
    run = killed(tmp_path, aggregate, "before its row")
    assert (run / "ledger.jsonl").read_bytes() == b""
    assert dppipe("resume", str(run)).exit_code == 0
    assert computed == list(range(20))
    assert verify_ledger(run).charged == (1 if aggregate == "mean" else 13)
    assert verify_ledger(run).intact


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_a_saved_release_is_taken_as_it_is(
    tmp_path: Path, computed: list[int], aggregate: str
) -> None:
    run = killed(tmp_path, aggregate, "after it is saved")
    assert_taken_as_saved(run)
    assert computed == []
