"""Runs of PATE that are killed around each release: charged once, voted once, never drawn twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning  # noqa: F401 (a forked process finds it loaded)
from killing import after, at_call, die
from learners.killed_runs import Death, kill_at
from learners.pate_specs import QUERIES, dppipe, sets, write_spec

from dppipe.learners.teaching import votes
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.released import ReleasedValues
from dppipe.runs.verify import verify_ledger

ASKED = 60
CHANGES = ("learner.aggregator=confident_gnmax", f"learner.asked={ASKED}")


def deaths(number: int) -> dict[str, Death]:
    """Return where a process dies around the so-many-th release."""
    charge, save = Ledger.charge, ReleasedValues.save
    return {
        "before its row": (Ledger, "charge", at_call(number, charge, die)),
        "after its row": (Ledger, "charge", at_call(number, charge, after(charge))),
        "before its noise": (
            GaussianStream,
            "add_",
            at_call(number, GaussianStream.add_, die),
        ),
        "before it is saved": (ReleasedValues, "save", at_call(number, save, die)),
        "after it is saved": (ReleasedValues, "save", at_call(number, save, after(save))),
    }


def killed(folder: Path, instant: str, number: int) -> Path:
    """Run in a process of its own, which is killed at this instant."""
    path = write_spec(folder)
    words = ("run", path, "--run-dir", folder / "run", *sets(*CHANGES))
    kill_at(deaths(number)[instant], lambda: dppipe(*words))
    return folder / "run"


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the noise that is drawn and the teachers that are trained in this process."""
    seen = {"noise": 0, "teachers": 0}
    noise, train = GaussianStream.add_, votes.teacher_scores

    def drawn(self: Any, *args: Any, **options: Any) -> Any:
        seen["noise"] += 1
        return noise(self, *args, **options)

    def trained(*args: Any) -> Any:
        seen["teachers"] += 1
        return train(*args)

    monkeypatch.setattr(GaussianStream, "add_", drawn)
    monkeypatch.setattr(votes, "teacher_scores", trained)
    return seen


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("instant", ["after its row", "before its noise", "before it is saved"])
def test_a_vote_that_was_charged_and_lost_is_not_asked_again(
    tmp_path: Path, noted: dict[str, int], instant: str, number: int
) -> None:
    run = killed(tmp_path, instant, number)
    rows = (run / "ledger.jsonl").read_bytes()
    done = dppipe("resume", run)
    said = " ".join(done.output.split())
    assert done.exit_code == 3, said
    assert f"ledger.jsonl:{number}: the release" in said
    assert "Start a new run." in said
    assert noted == {"noise": 0, "teachers": 0}
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert verify_ledger(run).charged == ASKED + QUERIES * (number - 1)
    assert not (run / "checkpoints" / "final.ckpt").exists()


@pytest.mark.parametrize("number", [1, 2])
def test_a_run_killed_before_a_charge_pays_once_and_trains_its_teachers_again(
    tmp_path: Path, noted: dict[str, int], number: int
) -> None:
    run = killed(tmp_path, "before its row", number)
    released = sorted(file.name for file in run.glob("released/*"))
    assert released == ["0001.pt"][: number - 1]
    before = [file.read_bytes() for file in sorted(run.glob("released/*"))]
    assert dppipe("resume", run).exit_code == 0
    assert noted == {"noise": 3 - number, "teachers": 12}
    assert verify_ledger(run).charged == ASKED + QUERIES
    assert verify_ledger(run).intact
    after_it = [file.read_bytes() for file in sorted(run.glob("released/*"))]
    assert after_it[: number - 1] == before


def test_votes_that_are_out_are_read_back_and_only_the_student_is_trained(
    tmp_path: Path, noted: dict[str, int]
) -> None:
    run = killed(tmp_path, "after it is saved", 2)
    rows = (run / "ledger.jsonl").read_bytes()
    assert dppipe("resume", run).exit_code == 0
    assert noted == {"noise": 0, "teachers": 0}
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert (run / "checkpoints" / "final.ckpt").exists()
