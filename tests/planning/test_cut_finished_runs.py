"""The file of finished runs, cut off anywhere: whole lines are read, and new ones stay apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from dp_accounting import GaussianDpEvent

from dppipe.errors import PrivacyRefusal
from dppipe.planning.earlier.finished_runs import FinishedRun, FinishedRuns
from dppipe.planning.earlier.runs import ChargedEvent, EarlierRun
from dppipe.privacy.events.plain import event_to_data


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Don't wait for the disk: these files are written a thousand times."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


def finished(name: str) -> FinishedRun:
    """Return the line of a run with one event, whose only hash is its name."""
    events = (ChargedEvent(event=event_to_data(GaussianDpEvent(2.0)), count=1),)
    run = EarlierRun(
        run=name,
        run_dir=name,
        ledger_head="0",
        relation="zero_out",
        unit="example",
        events=events,
    )
    return FinishedRun(hashes=(name,), runs=(run,))


def found(runs: FinishedRuns, names: str) -> str:
    return "".join(name for name in names if runs.find([name], strict=False))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file of two runs."""
    runs = FinishedRuns(tmp_path_factory.mktemp("whole") / "finished_runs.jsonl")
    for name in "ab":
        runs.add(finished(name))
    return runs.path.read_bytes()


def lines_within(whole: bytes, size: int) -> str:
    """Return the names of the runs whose lines stand in so many bytes, newline or not."""
    first = whole.index(b"\n")
    return "a" * (size >= first) + "b" * (size >= len(whole) - 1)


def test_after_every_cut_whole_lines_and_all_later_ones_are_found(
    tmp_path: Path,
    whole: bytes,
) -> None:
    for size in range(len(whole) + 1):
        runs = FinishedRuns(tmp_path / "finished_runs.jsonl")
        runs.path.write_bytes(whole[:size])
        before = lines_within(whole, size)
        assert found(runs, "ab") == before, size
        runs.add(finished("c"))
        runs.add(finished("d"))
        assert found(runs, "abcd") == before + "cd", size


def test_after_every_cut_a_strict_reader_refuses_what_is_left_of_a_line(
    tmp_path: Path,
    whole: bytes,
) -> None:
    first = whole.index(b"\n") + 1
    harmless = {0, first - 1, first, len(whole) - 1, len(whole)}
    for size in range(len(whole) + 1):
        runs = FinishedRuns(tmp_path / "finished_runs.jsonl")
        runs.path.write_bytes(whole[:size])
        runs.add(finished("c"))
        if size in harmless:
            assert runs.find(["c"], strict=True)[0].run == "c"
            continue
        with pytest.raises(PrivacyRefusal, match=rf":{1 + (size > first)}: expected the line"):
            runs.find(["c"], strict=True)


def test_a_line_is_never_joined_to_what_stands_before_it(tmp_path: Path) -> None:
    runs = FinishedRuns(tmp_path / "finished_runs.jsonl")
    for end in range(256):
        runs.path.write_bytes(b"{" + bytes([end]))
        runs.add(finished("c"))
        assert found(runs, "c") == "c", end


def test_a_write_that_takes_few_bytes_at_a_time_is_gone_on_with(
    tmp_path: Path,
    whole: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import os

    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:7]))
    runs = FinishedRuns(tmp_path / "finished_runs.jsonl")
    for name in "ab":
        runs.add(finished(name))
    assert runs.path.read_bytes() == whole
