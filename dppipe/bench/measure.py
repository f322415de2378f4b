"""How the time and the memory of steps are measured.

- Every sample of a contender is taken between two samples of ordinary training, in one process, and
  counts as a ratio to their mean: other load on the machine affects both.
- Contenders come one after the other, so that none suffers from another's memory.
- Memory is the peak of a process of its own, above what it holds with model and batch before its
  first step.
- Freed memory is kept, as a run keeps it, so that no contender pays for pages that another freed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dppipe.bench.steps import Step

WARM_UP = 2
WEIGHINGS = 3
"""Processes in which a contender's memory is measured: its layout differs between processes."""


@dataclass(frozen=True)
class Times:
    """What one contender took."""

    contender: str
    milliseconds: float
    """The median of its steps."""
    ratio: float
    """The median of its ratios to ordinary training."""
    low: float
    high: float
    """The quartiles of the ratios."""
    samples: int
    megabytes: float | None = None
    """The peak memory, above model and batch, in a process of its own."""
    failed: str | None = None
    """Why there are no figures, where there are none."""


def time_step(name: str, step: Step, plain: Step, *, rounds: int) -> Times:
    """Time a contender, each sample between two of ordinary training."""
    for _ in range(WARM_UP):
        plain()
        step()
    taken = []
    ratios = []
    before = _seconds(plain)
    for _ in range(rounds):
        own = _seconds(step)
        after = _seconds(plain)
        taken.append(own)
        ratios.append(2 * own / (before + after))
        before = after
    return _times(name, taken, ratios)


def _seconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _times(name: str, seconds: list[float], ratios: list[float]) -> Times:
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return Times(name, 1000 * statistics.median(seconds), middle, low, high, len(ratios))


def peak_megabytes(make: Callable[[], Step]) -> float:
    """Return the peak memory of steady steps, with all that is made for them.

    What the process holds now is subtracted.
    """
    _load_lazy_parts()
    before = _resident()
    step = make()
    for _ in range(WARM_UP):
        step()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    step()
    step()
    return _peak() - before


def peak_in_child(arguments: Mapping[str, Any]) -> float | None:
    """Return the median of a contender's peak memory over processes of its own.

    The result is None where the system can't tell a process's peak.
    """
    if not Path("/proc/self/clear_refs").exists():
        return None
    peaks: list[float] = []
    for _ in range(WEIGHINGS):
        said = _answer_of_child(json.dumps(arguments))
        if said:
            peaks.append(float(said.split()[-1]))
    return statistics.median(peaks) if peaks else None


def _answer_of_child(arguments: str) -> str:
    """Return what `weigh.py` prints in a process of its own; nothing if it fails.

    The child ends with this process, however this one ends: its input is a pipe that closes then.
    """
    command = [sys.executable, "-m", "dppipe.bench.weigh", arguments]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    with subprocess.Popen(command, text=True, **pipes) as child:
        try:
            # `communicate` would close the child's input, by which it knows that we are there.
            said = str(child.stdout.read()) if child.stdout is not None else ""
        except BaseException:
            child.kill()
            raise
    return said if child.returncode == 0 else ""


def _load_lazy_parts() -> None:
    """Let torch load what it loads on a first step, so that no contender is charged for it."""
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.zeros(1, 2)).sum().backward()
    optimizer.step()


def _resident() -> float:
    return _status("VmRSS")


def _peak() -> float:
    return _status("VmHWM")


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
