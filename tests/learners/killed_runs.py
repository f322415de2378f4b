"""Runs in a process of their own that is killed at one instant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning  # noqa: F401 (a forked process finds it loaded)
from killing import killed
from learners.test_perturbed_runs import dppipe

Death = tuple[Any, str, Any]
"""An object, the name of its attribute, and what takes that attribute's place."""


def kill_at(death: Death | list[Death], command: Callable[[], Any]) -> None:
    """Run a command in a forked process that is killed at this instant, or at the first of some."""

    def doomed() -> None:
        for fatal in death if isinstance(death, list) else [death]:
            setattr(*fatal)
        command()

    killed(doomed)


def killed_at(death: Death | list[Death], path: Path, *changes: str) -> Path:
    """Run a spec until it is killed at this instant; return its run directory."""
    run = path.parent / "run"
    words = [word for change in changes for word in ("--set", change)]
    kill_at(death, lambda: dppipe("run", str(path), "--run-dir", str(run), *words))
    return run


def assert_refused_as_lost(run: Path) -> None:
    """See that a release which was charged and lost isn't drawn again, and stays charged."""
    rows = (run / "ledger.jsonl").read_bytes()
    done = dppipe("resume", str(run))
    said = " ".join(done.output.split())
    assert done.exit_code == 3, said
    assert "ledger.jsonl:1: the release" in said
    assert "was lost in an interruption" in said
    assert "Start a new run." in said
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert not (run / "checkpoints" / "final.ckpt").exists()


def assert_taken_as_saved(run: Path) -> None:
    """See that a resumed run takes a saved value as it is, and ends."""
    rows = (run / "ledger.jsonl").read_bytes()
    value = (run / "released" / "0001.pt").read_bytes()
    assert dppipe("resume", str(run)).exit_code == 0
    assert (run / "ledger.jsonl").read_bytes() == rows
    assert (run / "released" / "0001.pt").read_bytes() == value
    assert (run / "checkpoints" / "final.ckpt").exists()
