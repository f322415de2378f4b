"""Runs that are killed around what they release first: charged once, drawn once, and never uncharged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning  # noqa: F401 (a forked process finds it loaded)
from killing import after, at_call, die
from learners.killed_runs import kill_at
from learners.test_feature_runs import LEARNER, PCA, SCALED, STEPS, command, rows_of, write_spec

from dppipe.learners.inputs import projection
from dppipe.learners.inputs.projection import ProjectionStage
from dppipe.learners.sgd.step import PrivateStep
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.verify import verify_ledger

DEATHS: dict[str, tuple[Any, str, Any]] = {
    "before its row": (Ledger, "charge", at_call(2, Ledger.charge, die)),
    "before its noise": (GaussianStream, "add_", at_call(2, GaussianStream.add_, die)),
    "before it is saved": (ProjectionStage, "write", die),
    "after it is saved": (projection, "save_tensors", after(projection.save_tensors)),
}
TEXTS = {"learner": LEARNER, "steps": STEPS}
OWN = {"learner": ["weights"], "steps": ["step"] * 4}


def killed(folder: Path, text: str, instant: str) -> Path:
    """Run in a process of its own, which is killed at this instant of its second release."""
    path = write_spec(folder, text)
    words = ["--run-dir", folder / "run", "--set", SCALED, "--set", PCA]
    kill_at(DEATHS[instant], lambda: command("run", path, *words))
    return folder / "run"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the size of each noise vector that is drawn in this process."""
    sizes: list[int] = []
    usual = GaussianStream.add_

    def noted(self: Any, flat: Any, std: float, **others: Any) -> Any:
        sizes.append(flat.numel())
        return usual(self, flat, std, **others)

    monkeypatch.setattr(GaussianStream, "add_", noted)
    return sizes


def charged_in(run: Path) -> list[str]:
    return [row.get("what", "step") for row in rows_of(run)]


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("instant", ["before its noise", "before it is saved"])
def test_a_projection_that_was_charged_and_lost_is_not_released_again(
    tmp_path: Path, drawn: list[int], kind: str, instant: str
) -> None:
    run = killed(tmp_path, TEXTS[kind], instant)
    rows = (run / "ledger.jsonl").read_bytes()
    assert charged_in(run) == ["statistics", "projection"]
    done = command("resume", run)
    said = " ".join(done.output.split())
    assert done.exit_code == 3, said
    assert "ledger.jsonl:2: the release 'projection' was charged" in said
    assert "Start a new run." in said
    assert drawn == []
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert not (run / "projection.pt").exists()
    assert verify_ledger(run).charged == 2


@pytest.mark.parametrize("kind", TEXTS)
def test_a_run_killed_between_two_first_releases_keeps_one_and_makes_the_other(
    tmp_path: Path, drawn: list[int], kind: str
) -> None:
    run = killed(tmp_path, TEXTS[kind], "before its row")
    saved = (run / "statistics.json").read_bytes()
    assert charged_in(run) == ["statistics"]
    done = command("resume", run)
    assert done.exit_code == 0, done.output
    assert charged_in(run) == ["statistics", "projection", *OWN[kind]]
    assert (run / "statistics.json").read_bytes() == saved
    assert drawn[0] == 666
    assert len(drawn) == 1 + len(OWN[kind])
    assert verify_ledger(run).intact


@pytest.mark.parametrize("kind", TEXTS)
def test_a_projection_that_was_saved_is_taken_as_it_is(
    tmp_path: Path, drawn: list[int], kind: str
) -> None:
    run = killed(tmp_path, TEXTS[kind], "after it is saved")
    rows = (run / "ledger.jsonl").read_bytes()
    saved = (run / "projection.pt").read_bytes()
    done = command("resume", run)
    assert done.exit_code == 0, done.output
    assert charged_in(run) == ["statistics", "projection", *OWN[kind]]
    assert (run / "ledger.jsonl").read_bytes().startswith(rows)
    assert (run / "projection.pt").read_bytes() == saved
    assert 666 not in drawn
    assert verify_ledger(run).intact
    assert (run / "checkpoints" / "final.ckpt").exists()


@pytest.mark.parametrize("kind", TEXTS)
def test_a_saved_projection_whose_row_is_gone_is_not_used(
    tmp_path: Path, drawn: list[int], kind: str
) -> None:
    run = killed(tmp_path, TEXTS[kind], "after it is saved")
    lines = (run / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (run / "ledger.jsonl").write_bytes(lines[0])
    done = command("resume", run)
    assert done.exit_code != 0
    assert drawn == []
    assert (run / "ledger.jsonl").read_bytes() == lines[0]


def test_steps_go_on_after_a_death_with_the_same_projection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: list[int]
) -> None:
    monkeypatch.setitem(
        DEATHS, "at a step", (PrivateStep, "__call__", at_call(3, PrivateStep.__call__, die))
    )
    run = killed(tmp_path, STEPS, "at a step")
    assert charged_in(run) == ["statistics", "projection", "step", "step"]
    done = command("resume", run)
    assert done.exit_code == 0, done.output
    assert charged_in(run) == ["statistics", "projection", *["step"] * 4]
    assert 666 not in drawn
