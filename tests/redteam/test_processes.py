"""Two processes: each of them sees the same with and without a record."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from comparing import Observed, compare
from outputs import files_of, text_facts
from running import ENDED
from worker import CASES

HERE = Path(__file__).parent


def run_once(name: str, which: str, folder: Path) -> dict[int, Observed]:
    """Run a case on two processes and return what each has seen; the first one's files count for both."""
    place = folder / "now"
    place.mkdir()
    words = [sys.executable, str(HERE / "worker.py"), name, which, str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, env=environment, timeout=180, check=False)
    seen = {}
    for rank in (0, 1):
        path = folder / f"{which}-{rank}.pickle"
        if path.exists():
            seen[rank] = pickle.loads(path.read_bytes())
    assert 0 in seen, done.stderr
    seen[0].files = files_of(place)
    seen[0].console |= text_facts(done.stdout, "stdout line")
    seen[0].ended |= {"code of the process": str(done.returncode)}
    place.rename(folder / which)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_processes_show_nothing_of_one_record(name, tmp_path):
    relation = CASES[name]().pair().relation
    first = run_once(name, "first", tmp_path)
    second = run_once(name, "second", tmp_path)
    assert sorted(first) == sorted(second), "the ranks that came to an end"
    for rank in first:
        verdict = compare(first[rank], second[rank], relation=relation)
        assert not verdict.differences, f"rank {rank}: {verdict.report()}"
    assert any(ended.items() <= first[0].ended.items() for ended in ENDED), first[0].ended
