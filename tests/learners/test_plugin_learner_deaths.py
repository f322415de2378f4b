"""Runs of a plugin learner that are killed around each release: nothing is let out uncharged, and nothing is charged twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killing import after, at_call, die, killed, write_half_of_row
from learners.plugin_runs import Desk, rows_of
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.learners import gate as gates
from dppipe.learners.gate import Gate
from dppipe.learners.gating import unit_sums
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.gumbel import GumbelStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.record import RunRecord
from dppipe.runs.released import ReleasedValues
from dppipe.runs.verify import verify_ledger

NOISE = {1: (GaussianStream, "add_"), 2: (GumbelStream, "draw")}
"""Where noise is drawn for each of the two releases."""

Death = Callable[[int], tuple[Any, str, Callable[..., Any]]]
DEATHS: dict[str, Death] = {
    "asking for it": lambda n: (Gate, "next", at_call(n, Gate.next, die)),
    "before its row": lambda n: (Ledger, "charge", at_call(n, Ledger.charge, die)),
    "inside its row": lambda n: (os, "write", write_half_of_row(n)),
    "after its row": lambda n: (Ledger, "charge", at_call(n, Ledger.charge, after(Ledger.charge))),
    "before its noise": lambda n: (*NOISE[n], die),
    "before it is saved": lambda n: (
        ReleasedValues,
        "save",
        at_call(n, ReleasedValues.save, die),
    ),
    "after it is saved": lambda n: (
        ReleasedValues,
        "save",
        at_call(n, ReleasedValues.save, after(ReleasedValues.save)),
    ),
    "showing it": lambda n: (RunRecord, "release", at_call(n, RunRecord.release, die)),
}
LOST = ["inside its row", "after its row", "before its noise", "before it is saved"]
NOT_CHARGED = ["asking for it", "before its row"]
SAVED = ["after it is saved", "showing it"]
assert {*LOST, *NOT_CHARGED, *SAVED} == {*DEATHS}


def killed_run(desk: Desk, instant: str, number: int) -> Path:
    """Run the spec in a process of its own, which is killed at this instant of a release."""
    run = desk.folder / "run"

    def doomed() -> None:
        os.chdir(desk.folder)
        setattr(*DEATHS[instant](number))
        CliRunner().invoke(app, ["run", "spec.yaml", "--run-dir", str(run)])

    killed(doomed)
    return run


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each time that noise is drawn, or records are summed, in this process."""
    seen: list[str] = []

    def note(owner: Any, name: str, what: str) -> None:
        usual = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            seen.append(what)
            return usual(*args, **kwargs)

        monkeypatch.setattr(owner, name, noted)

    note(GaussianStream, "add_", "noise")
    note(gates, "select_noisily", "selection")
    note(unit_sums, "_value", "unit")
    return seen


def resume(desk: Desk, run: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(desk.folder)
    return CliRunner().invoke(app, ["resume", str(run)])


def releases_behind(number: int, instant: str) -> int:
    """How many releases were let out when the run was killed."""
    return number if instant in SAVED else number - 1


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("instant", LOST)
def test_a_release_that_was_charged_and_lost_is_refused_and_stays_charged(
    desk: Desk, drawn: list[str], instant: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = killed_run(desk, instant, number)
    before = (run / "ledger.jsonl").read_bytes()
    for _ in range(2):
        done = resume(desk, run, monkeypatch)
        said = " ".join(done.output.split())
        assert done.exit_code == 3, said
        assert f"ledger.jsonl:{number}: the release" in said
        assert "was lost in an interruption" in said
        assert "Start a new run." in said
    assert (run / "ledger.jsonl").read_bytes() == before
    assert drawn == []
    found = verify_ledger(run)
    assert found.charged == number
    assert found.epsilon is not None
    assert found.epsilon > 0
    assert not (run / "checkpoints" / "final.ckpt").exists()


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("instant", [*NOT_CHARGED, *SAVED])
def test_a_run_goes_on_with_what_was_let_out_and_pays_for_each_release_once(
    desk: Desk, drawn: list[str], instant: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = killed_run(desk, instant, number)
    behind = releases_behind(number, instant)
    rows = (run / "ledger.jsonl").read_bytes()
    values = {file.name: file.read_bytes() for file in (run / "released").glob("*.pt")}
    assert len(rows_of(run)) == behind == len(values)
    done = resume(desk, run, monkeypatch)
    assert done.exit_code == 0, done.output
    assert (run / "ledger.jsonl").read_bytes().startswith(rows)
    assert [row["what"] for row in rows_of(run)] == ["mean", "selection"]
    for name, value in values.items():
        assert (run / "released" / name).read_bytes() == value
    expected = ["noise", "selection"][behind:]
    assert [what for what in drawn if what != "unit"] == expected
    assert verify_ledger(run).intact


def test_a_run_killed_at_its_end_writes_its_model_without_another_release(
    desk: Desk, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEATHS, "at the end", lambda n: (RunRecord, "finish", die))
    run = killed_run(desk, "at the end", 1)
    rows = (run / "ledger.jsonl").read_bytes()
    assert resume(desk, run, monkeypatch).exit_code == 0
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert (run / "checkpoints" / "final.ckpt").exists()
    assert drawn == []


def test_a_row_taken_out_of_the_ledger_is_noticed_by_the_value_it_paid_for(
    desk: Desk, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = killed_run(desk, "asking for it", 2)
    (run / "ledger.jsonl").write_bytes(b"")
    done = resume(desk, run, monkeypatch)
    assert done.exit_code == 3
    assert "expected a row for each of 1 released values, got 0" in " ".join(done.output.split())
    assert drawn == []
    assert not verify_ledger(run).intact


def test_another_plugin_file_is_not_resumed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    run = killed_run(desk, "asking for it", 2)
    file = desk.folder / "plugins" / "mine.py"
    file.write_text(file.read_text() + "\n# changed\n")
    done = Desk(desk.folder).dppipe("resume", str(run), code=None)
    assert done.code == 3
    assert "plugins/mine.py" in done.output


def test_a_copy_of_an_interrupted_run_is_refused(
    desk: Desk, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = killed_run(desk, "asking for it", 2)
    copy = desk.folder / "copy"
    shutil.copytree(run, copy)
    assert resume(desk, copy, monkeypatch).exit_code == 3
    assert drawn == []
