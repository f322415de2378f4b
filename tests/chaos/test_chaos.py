"""A short campaign of kills over runs and resumes; `make chaos` runs a long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dppipe

ROOT = Path(dppipe.__file__).parents[1]


def run_campaign(kills: int, *, seed: int) -> None:
    """Run it in a process of its own, which forks before torch has threads."""
    command = [sys.executable, str(Path(__file__).with_name("campaign.py")), str(kills), str(seed)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank-kill" in done.stdout, done.stdout


def test_no_death_hides_spending_or_leaves_a_run_that_cannot_go_on() -> None:
    run_campaign(5, seed=1)


@pytest.mark.slow
def test_no_death_of_two_hundred_hides_spending_or_leaves_a_run_that_cannot_go_on() -> None:
    run_campaign(200, seed=2)
