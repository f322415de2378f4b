"""Runs of every learner that are killed around each release: nothing is let out uncharged, nothing is charged twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.learner_runs import ALL, Desk, Setting, each, usual_settings
from contracts.staged_records import fill_stage
from killing import after, at_call, die, killed, write_half_of_row

from dppipe.learners.gate import Gate
from dppipe.runs.ledger import Ledger
from dppipe.runs.record import RunRecord
from dppipe.runs.released import ReleasedValues
from dppipe.runs.verify import verify_ledger

pytestmark = pytest.mark.sampled(3)

Death = Callable[[int], tuple[Any, str, Callable[..., Any]]]
LOST: dict[str, Death] = {
    "inside its row": lambda n: (os, "write", write_half_of_row(n)),
    "after its row": lambda n: (Ledger, "charge", at_call(n, Ledger.charge, after(Ledger.charge))),
    "before it is saved": lambda n: (ReleasedValues, "save", at_call(n, ReleasedValues.save, die)),
}
"""The instants at which a release is charged, and nobody will ever see its value."""
NOT_CHARGED: dict[str, Death] = {
    "asking for it": lambda n: (Gate, "next", at_call(n, Gate.next, die)),
    "before its row": lambda n: (Ledger, "charge", at_call(n, Ledger.charge, die)),
}
SAVED: dict[str, Death] = {
    "after it is saved": lambda n: (
        ReleasedValues,
        "save",
        at_call(n, ReleasedValues.save, after(ReleasedValues.save)),
    ),
    "showing it": lambda n: (RunRecord, "release", at_call(n, RunRecord.release, die)),
}
SETTINGS = usual_settings(tuple(case for case in ALL if case.resumes))


def cases(deaths: dict[str, Death]) -> list[Any]:
    """Return each instant of the first, the second and the last release of each learner."""
    found: list[Any] = []
    for setting in SETTINGS:
        releases = len(setting.case.releases)
        for number in sorted({1, min(2, releases), releases}):
            for instant in deaths:
                name = f"{setting.case.id}-{instant}-{number}"
                found.append(pytest.param(setting, instant, number, id=name))
    return found


def killed_run(desk: Desk, death: tuple[Any, str, Callable[..., Any]]) -> Path:
    """Run in a process of its own, which is killed at an instant."""
    case = desk.setting.case
    fill_stage(case.task, desk.setting.records())
    changes = ("--set", case.more_noise) if case.more_noise else ()

    def doomed() -> None:
        setattr(*death)
        desk.dppipe("run", "spec.yaml", "--run-dir", "run", *changes)

    killed(doomed)
    return desk.folder / "run"


def values_of(run: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (run / "released").glob("*.pt")}


@pytest.mark.parametrize(("setting", "instant", "number"), cases(LOST))
def test_a_release_that_was_charged_and_lost_stays_charged_and_is_not_drawn_again(
    setting: Setting, instant: str, number: int, tmp_path: Path
) -> None:
    desk = Desk.make(tmp_path / "desk", setting)
    run = killed_run(desk, LOST[instant](number))
    rows, values = (run / "ledger.jsonl").read_bytes(), values_of(run)
    assert len(values) == number - 1
    what = setting.case.releases[number - 1]
    for _ in range(2):
        done = desk.resume(code=3)
        said = " ".join(done.output.split())
        assert f"ledger.jsonl:{number}: the release {what!r} was charged, and its value" in said
        assert "Start a new run." in said
        assert done.trace.draws == []
        assert done.trace.charges == []
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert values_of(run) == values
    found = verify_ledger(run)
    counts = [
        release["count"] for release in json.loads((run / "plan.json").read_text())["releases"]
    ]
    assert found.charged == sum(counts[:number])  # a torn row counts for its whole release
    assert found.epsilon is not None
    assert found.epsilon >= desk.curve(run)[number - 1] * (1 - 1e-4)
    assert not (run / "checkpoints" / "final.ckpt").exists()


@pytest.mark.parametrize(("setting", "instant", "number"), cases(NOT_CHARGED | SAVED))
def test_a_run_goes_on_with_what_was_let_out_and_pays_for_each_release_once(
    setting: Setting, instant: str, number: int, tmp_path: Path
) -> None:
    desk = Desk.make(tmp_path / "desk", setting)
    run = killed_run(desk, (NOT_CHARGED | SAVED)[instant](number))
    behind = number if instant in SAVED else number - 1
    rows, values = (run / "ledger.jsonl").read_bytes(), values_of(run)
    assert rows.count(b"\n") == len(values) == behind
    done = desk.resume()
    assert (run / "ledger.jsonl").read_bytes().startswith(rows)
    assert [row["what"] for row in done.rows] == list(setting.case.releases)
    assert values_of(run).items() >= values.items()
    assert len(done.trace.charges) == len(setting.case.releases) - behind
    assert {draw.release for draw in done.trace.draws} == set(range(1, len(done.trace.charges) + 1))
    found = verify_ledger(run)
    assert found.faults == ()
    assert found.epsilon == pytest.approx(desk.curve(run)[-1], rel=1e-4)
    assert done.json("summary.json")["starts"] == 2
    assert "expected an unfinished run" in desk.resume(code=2).output


@each(SETTINGS)
def test_a_run_that_is_killed_at_its_end_has_the_same_weights_when_it_goes_on(
    setting: Setting, tmp_path: Path
) -> None:
    desk = Desk.make(tmp_path / "desk", setting)

    def keep_weights(self: RunRecord, weights: Any, **options: Any) -> None:
        torch.save(weights, desk.folder / "weights.pt")
        die()

    run = killed_run(desk, (RunRecord, "finish", keep_weights))
    rows = (run / "ledger.jsonl").read_bytes()
    done = desk.resume()
    assert done.trace.draws == []
    assert (run / "ledger.jsonl").read_bytes() == rows
    kept = torch.load(desk.folder / "weights.pt", weights_only=True)
    found = done.weights()
    assert list(kept) == list(found)
    for name, weight in kept.items():
        assert torch.equal(weight, found[name])
    assert verify_ledger(run).intact


@each(SETTINGS)
def test_rows_that_were_taken_out_are_noticed_by_the_values_they_paid_for(
    setting: Setting, tmp_path: Path
) -> None:
    desk = Desk.make(tmp_path / "desk", setting)
    run = killed_run(desk, (RunRecord, "finish", die))
    (run / "ledger.jsonl").write_bytes(b"")
    done = desk.resume(code=3)
    assert "can't be trusted" in " ".join(done.output.split())
    assert done.trace.draws == []
    assert not verify_ledger(run).intact
