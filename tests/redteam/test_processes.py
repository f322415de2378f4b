"""Two processes: each of them sees the same with and without a record."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from pathlib import Path

import pytest
from free_ports import free_port
from redteam.comparing import Observed, compare
from redteam.outputs import files_of
from redteam.running import ENDED, slow_but
from redteam.worker import CASES, run_rank

SECONDS = 120


@pytest.fixture(scope="module")
def forked():
    """A server that has loaded everything and forks processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[1])])
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["redteam.worker"])
        yield context


def run_once(forked, name: str, which: str, folder: Path) -> dict[int, Observed]:
    """Run a case on two processes and return what each has seen; the files are the first one's."""
    place = folder / "now"
    place.mkdir()
    port = free_port()
    ranks = [
        forked.Process(target=run_rank, args=(name, which, rank, port, str(folder)))
        for rank in (0, 1)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(SECONDS)
        process.kill()
    seen = {}
    for rank in (0, 1):
        path = folder / f"{which}-{rank}.pickle"
        if path.exists():
            seen[rank] = pickle.loads(path.read_bytes())
            continue
        stacks = path.with_suffix(".stacks").read_text()
        others = [(one.ended, one.console, one.messages) for one in seen.values()]
        assert not stacks, f"rank {rank} of the {which} run hangs:\n{stacks}\nothers: {others}"
    assert 0 in seen, f"the first rank of the {which} run left nothing"
    seen[0].files = files_of(place)
    place.rename(folder / which)
    return seen


@pytest.mark.parametrize(
    "name", slow_but("spec, zero_out", "own, users", "item3 spec, cannot be read", among=CASES)
)
def test_two_processes_show_nothing_of_one_record(forked, name, tmp_path):
    relation = CASES[name]().pair().relation
    first = run_once(forked, name, "first", tmp_path)
    second = run_once(forked, name, "second", tmp_path)
    assert sorted(first) == sorted(second), "the ranks that came to an end"
    for rank in first:
        verdict = compare(first[rank], second[rank], relation=relation)
        if verdict.differences:
            pytest.fail(f"rank {rank}: {verdict.report()}", pytrace=False)
    assert any(ended.items() <= first[0].ended.items() for ended in ENDED), first[0].ended
