"""How many rows fit in memory at once, found on made-up input: private records never decide it.

A step runs on a few made-up rows while a dispatch mode adds up the bytes of every tensor that is
alive. Two such runs yield the bytes per row. The number of rows that fit follows from them, and is
tried on made-up rows.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dppipe.engine.engine import Engine
from dppipe.engine.units import Ids

SHARE = 0.5
"""The share of free memory that a step may use: kernels need some, and so do other programs."""
FEW = 2
"""Rows of the first run."""
MORE = 8
"""Rows of the second run."""
HOST_BYTES = 64 << 20
"""The bytes of a physical batch on a CPU, if memory allows.

Larger ones don't fit in the caches, and the system allocates and frees their pages again and again.
CPU time per row on one thread (AMD EPYC, 32 MB of L3):
- CNN of the benchmarks: 159 us at 512 rows (41 MB), 195 at 2048, 254 at 8192;
- WRN: 27 ms at 32 rows (180 MB), 35 at 128;
- perceptron: 115 us from 512 to 4096 rows, 124 at 8192.
With fewer rows the fixed cost of a call counts: 269 us a row at 32 rows of the CNN, 30 ms at 8 of
the WRN.
"""
HOST_ROWS = 16, 4096
"""The fewest and the most rows of a physical batch on a CPU, if memory allows."""
GROUP = Path("/sys/fs/cgroup")
"""The directory with a container's own memory limit."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the bytes of new tensors in its block; `peak` is the most that were alive at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._now = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count what an operation makes."""
        for tensor in _tensors((args, kwargs)):
            self._seen.add(tensor.untyped_storage()._cdata)
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._seen:
                self._seen.add(storage._cdata)
                self._now += storage.nbytes()
                weakref.finalize(storage, self._free, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self._now)
        return result

    def _free(self, storage: int, size: int) -> None:
        self._now -= size
        self._seen.discard(storage)


def step_bytes(engine: Engine, batch: Any, *, units: Ids | None = None) -> int:
    """Return the most bytes that a step on this batch has alive at once.

    The batch counts; the model and the sums don't.
    """
    sums = engine.zeros()
    bounds = engine.bounds()
    engine.prepare(batch)
    with LiveBytes() as live:
        engine.accumulate(batch, sums, bounds=bounds, units=units)
    whole: int = live.peak + sum(tensor.nbytes for tensor in _tensors(batch))
    return whole


def find_physical_batch_size(
    engine: Engine,
    synthetic: Callable[[int], Any],
    *,
    limit: int,
    memory: int | None = None,
    grouped: bool = False,
    steady: bool = False,
) -> int:
    """Return how many rows a step should take at once: `limit`, or a power of two below it.

    They fit in memory and, on a CPU, are no more than it processes at full speed. Torch's own
    generator isn't changed.

    Args:
        synthetic: Returns n made-up rows on the device.
        memory: Bytes that a step may take; without it, a share of the device's memory.
        grouped: Whether rows belong to units, which takes memory for gathering them.
        steady: Whether the answer should be reproducible: it then follows the device's total
            memory instead of its free memory.
    """
    device = engine.bounds().device

    def needed(rows: int) -> int:
        units = numpy.arange(rows) // 2 if grouped else None
        return step_bytes(engine, synthetic(rows), units=units)

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        few = needed(FEW)
        per_row = max(1.0, (needed(MORE) - few) / (MORE - FEW))
        available = float(memory) if memory is not None else _share(device, steady=steady)
        fitting = (available - max(0.0, few - FEW * per_row)) / per_row
        if memory is None and device.type == "cpu":
            fitting = min(fitting, max(HOST_ROWS[0], HOST_BYTES / per_row), HOST_ROWS[1])
        size = limit if fitting >= limit else 2 ** math.floor(math.log2(max(1.0, fitting)))
        while size > 1 and not _fits(needed, size, available=available):
            size = 2 ** math.floor(math.log2(size - 1))
    return size


def _share(device: torch.device, *, steady: bool) -> float:
    return SHARE * (whole_memory(device) if steady else memory_left(device))


def memory_left(device: torch.device) -> float:
    """Return the bytes that are free on a device."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    used = _number(GROUP / "memory.current")
    group_left = _number(GROUP / "memory.max") - (used if math.isfinite(used) else 0.0)
    return min(_meminfo("MemAvailable"), group_left)


def whole_memory(device: torch.device) -> float:
    """Return the total bytes of a device, free or used."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[1])
    return min(_meminfo("MemTotal"), _number(GROUP / "memory.max"))


def _meminfo(field: str) -> float:
    """Return a field of the system's memory table in bytes; 4 GB where there is none."""
    table = Path("/proc/meminfo")
    lines = table.read_text().splitlines() if table.exists() else []
    for line in lines:
        if line.startswith(f"{field}:"):
            return 1024.0 * int(line.split()[1])
    return 2.0**32


def _number(file: Path) -> float:
    """Return the number in a file; infinity where there is none, as where a limit is `max`."""
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return math.inf


def _fits(needed: Callable[[int], int], rows: int, *, available: float) -> bool:
    """Try it: a model's memory need not grow in proportion to its rows."""
    try:
        return needed(rows) <= available
    except torch.OutOfMemoryError:
        return False


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
