"""A search with several processes: one order and one ledger, by the first; the others follow."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killing import die, killed
from pipeline.tuning.searches import (
    LOST,
    all_bytes,
    begin,
    command,
    known_order,
    known_scores,
    rows,
    write_spec,
)

from dppipe.errors import Interrupted, UsageError
from dppipe.runs.verify import verify_ledger

TWO = ("train:  ", "performance: {devices: 2, accelerator: cpu}\ntrain:  ")
MANY_STEPS = ("steps: 3, checkpoint_every: 2", "steps: 60, checkpoint_every: 5")
MUCH_NOISE = ("noise_multiplier: 2.0", "noise_multiplier: 20.0")
PRIVATE = ("classes: 3,", "classes: 3, normalize: {kind: private, noise_multiplier: 20},")


def children() -> list[int]:
    """Return the processes that this one has started."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found


def kill_at_row(ledger: Path, number: int, kill: Callable[[], None]) -> threading.Thread:
    """Kill once a ledger has so many rows."""

    def wait() -> None:
        deadline = time.monotonic() + 120
        while not ledger.exists() or ledger.read_bytes().count(b"\n") < number:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)
        kill()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def check_end(run: Path, drawn: list[Any]) -> None:
    """Check a search that went on in two processes after it had drawn its order."""
    begun = (run / "tune" / "sealed" / "order.json").read_bytes()
    assert b"[1, 0]" in begun
    command("resume", str(run))
    assert len(drawn) == 1
    (paid,) = rows(run / "ledger.jsonl")
    winner = rows(run / "tune" / "winner" / "ledger.jsonl")
    assert {(row["count"], row["covered_by"]) for row in winner} == {(0, paid["hash"])}
    assert winner[-1]["step"] == 60
    assert verify_ledger(run).intact
    assert "lr: 0.5" in (run / "config.yaml").read_text()
    left = b"".join(all_bytes(run).values())
    assert LOST.encode() not in left
    assert not (run / "tune" / "sealed").exists()
    assert children() == []


@pytest.mark.slow
def test_two_processes_make_one_search_with_one_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    known_scores(monkeypatch)
    drawn = known_order(monkeypatch, 0, 1)
    run = tmp_path / "run"
    said = command("tune", str(write_spec(tmp_path, TWO, PRIVATE)), "--run-dir", str(run))
    assert len(drawn) == 1
    assert [row["what"] for row in rows(run / "ledger.jsonl")] == ["statistics", "selection"]
    assert len(rows(run / "tune" / "winner" / "ledger.jsonl")) == 3
    assert verify_ledger(run).intact
    assert said.count("ended") == 1
    assert "".join(capfd.readouterr()) == ""  # libraries below would tell of every run
    assert "LOCAL_RANK" not in os.environ
    assert children() == []


@pytest.mark.slow
def test_a_lost_process_stops_the_search_which_goes_on_as_it_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_scores(monkeypatch)
    drawn = known_order(monkeypatch, 1, 0)
    run = tmp_path / "run"
    spec = write_spec(tmp_path, TWO, MANY_STEPS, MUCH_NOISE)

    def kill() -> None:
        for child in children():
            os.kill(child, signal.SIGKILL)

    waiting = kill_at_row(run / "tune" / "sealed" / "0" / "ledger.jsonl", 20, kill)
    with pytest.raises(Interrupted, match="a process of the search is lost") as error:
        begin(spec, run)
    waiting.join()
    assert error.value.exit_code == 1
    assert "0" not in str(error.value).replace(str(run), "")
    check_end(run, drawn)


@pytest.mark.slow
def test_a_search_whose_first_process_is_killed_goes_on_as_it_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_scores(monkeypatch)
    run = tmp_path / "run"
    spec = write_spec(tmp_path, TWO, MANY_STEPS, MUCH_NOISE)
    drawn = known_order(monkeypatch, 1, 0)

    def doomed() -> None:
        kill_at_row(run / "tune" / "sealed" / "0" / "ledger.jsonl", 20, die)
        begin(spec, run)

    killed(doomed)
    drawn.append("by the process that was killed")
    check_end(run, drawn)


@pytest.mark.parametrize(
    ("settings", "launched", "expected"),
    [
        ("{num_nodes: 2}", False, "num_nodes: expected 1"),
        ("{devices: 2, accelerator: cpu}", True, "without torchrun"),
    ],
)
def test_processes_that_a_search_can_t_start_are_refused_before_anything_is_written(
    settings: str,
    launched: bool,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if launched:
        monkeypatch.setenv("LOCAL_RANK", "0")
    run = tmp_path / "run"
    with pytest.raises(UsageError, match=expected):
        begin(write_spec(tmp_path, ("train:  ", f"performance: {settings}\ntrain:  ")), run)
    assert not run.exists()
