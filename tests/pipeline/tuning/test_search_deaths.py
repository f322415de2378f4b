"""A search that is killed at every write: nothing is drawn twice, nothing of a loser is left."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from killing import die, killed
from pipeline.tuning.searches import (
    ANOTHER_LEARNER,
    LOST,
    WON,
    all_bytes,
    begin,
    command,
    known_order,
    known_scores,
    rows,
    write_spec,
)

from dppipe.runs.verify import verify_ledger

_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.utime", "os.chmod"}
_ORDER = (0, 1, 0)
_SCOPE = ("delta: 1.0e-5}", "delta: 1.0e-5, scope: shared}")
_FEW = 6
"""How many of the writes the quick test dies at; half of them for a learner without steps."""


class Writes:
    """Counts what a process changes under a directory, and dies at one of the changes."""

    def __init__(self, run: Path, *, fatal: int | None = None) -> None:
        self.run = str(run)
        self.fatal = fatal
        self.count = 0
        self.on = True
        self._write = os.write
        sys.addaudithook(self._seen)
        os.write = self._written  # type: ignore[assignment]

    def _seen(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open":
            path, mode, flags = args
            changes = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR)) or mode not in (
                None,
                "r",
                "rb",
            )
        elif event in _CHANGES:
            path, changes = args[0], True
        else:
            return
        if changes and str(path).startswith(self.run):
            self._note()

    def _written(self, fd: int, data: bytes) -> int:
        """Die in the middle of a row."""
        if self.on and bytes(data[:7]) == b'{"row":':
            self.count += 1
            if self.count == self.fatal:
                self._write(fd, data[: len(data) // 2])
                die()
        return self._write(fd, data)

    def _note(self) -> None:
        self.count += 1
        if self.count == self.fatal:
            die()

    def stop(self) -> int:
        self.on = False
        os.write = self._write
        return self.count


def number_of_writes(folder: Path) -> int:
    """Return how many changes a whole search makes, by one in a process of its own."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            writes = Writes(folder / "counted")
            begin(folder / "spec.yaml", folder / "counted")
            os.write(write, str(writes.stop()).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.wait()
    return int(os.read(read, 100))


def check_death(
    folder: Path, fatal: int, monkeypatch: pytest.MonkeyPatch, *, takes_steps: bool
) -> None:
    """Kill a search at one write, go on with it, and look at everything that is left.

    A run of a learner without steps that has lost its only release loses: then another has won.
    """
    run = folder / f"run{fatal}"

    def doomed() -> None:
        Writes(run, fatal=fatal)
        begin(folder / "spec.yaml", run)

    killed(doomed)
    ledger = run / "ledger.jsonl"
    sealed = run / "tune" / "sealed"
    charged = ledger.exists() and ledger.stat().st_size > 0
    if sealed.exists():
        assert charged, "the charge comes before the first draw"
    if not (run / "plan.json").exists() or not ledger.exists():
        return  # nothing has begun
    ordered = (sealed / "order.json").exists() or (run / "tune" / "begun").exists()
    # Another order than before: it must not be looked for where one was drawn.
    drawn = known_order(monkeypatch, *((1, 1, 1, 1) if ordered else _ORDER))
    command("resume", str(run), code=2 if is_finished(run) else 0)
    if ordered:
        assert drawn == []
    check_end(run, best=(1,) if takes_steps else (0, 1))


def is_finished(run: Path) -> bool:
    return (run / "privacy.md").exists() and (run / "tune.json").exists()


def check_end(run: Path, *, best: tuple[int, ...]) -> None:
    left = all_bytes(run)
    won = json.loads((run / "tune.json").read_text())["winner"]["candidate"]
    assert won in best
    lost = LOST if won else WON
    assert not [name for name in left if "sealed" in name or ".tmp-" in name]
    assert lost.encode() not in b"".join(left.values())
    (paid,) = rows(run / "ledger.jsonl")
    assert paid["count"] == 1
    winner = rows(run / "tune" / "winner" / "ledger.jsonl")
    assert {(row["count"], row["covered_by"]) for row in winner} == {(0, paid["hash"])}
    found = verify_ledger(run)
    assert found.intact, found.faults
    summary = json.loads((run / "summary.json").read_text())
    assert summary["epsilon"] == paid["epsilon"]
    command("budget", "reconcile", "shared")
    shown = json.loads(command("budget", "show", "shared", "--json"))
    (entry,) = [one for one in shown["runs"] if one["run_dir"] == str(run)]
    assert entry["state"] == "settled"
    assert entry["epsilon"] == pytest.approx(paid["epsilon"])


@pytest.fixture(params=[(), ANOTHER_LEARNER], ids=["dp_sgd", "output_perturbation"])
def changes(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def desk(changes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    known_scores(monkeypatch)
    known_order(monkeypatch, *_ORDER)
    spec = write_spec(tmp_path, _SCOPE, *changes)
    command("budget", "create", "shared", "--like", str(spec), "--epsilon", "5000")
    return tmp_path


def test_a_search_that_is_killed_at_some_writes_goes_on_as_it_was_drawn(
    desk: Path, changes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = number_of_writes(desk)
    few = _FEW // 2 if changes else _FEW
    for part in range(few):
        known_order(monkeypatch, *_ORDER)
        check_death(desk, 1 + part * (last - 1) // (few - 1), monkeypatch, takes_steps=not changes)


@pytest.mark.slow
def test_a_search_that_is_killed_at_any_write_goes_on_as_it_was_drawn(
    desk: Path, changes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fatal in range(1, number_of_writes(desk) + 1):
        known_order(monkeypatch, *_ORDER)
        check_death(desk, fatal, monkeypatch, takes_steps=not changes)
