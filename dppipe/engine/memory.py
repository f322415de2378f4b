"""How many rows fit in memory at once, found on made-up input: private records never decide it.

A step is run on a few made-up rows while a dispatch mode adds up the bytes of every tensor that is alive; two such runs give the
bytes per row. What the memory allows follows, and is tried on made-up rows.
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
"""The share of the memory left that a step may plan with: kernels take some of their own, and other work goes on."""
FEW, MORE = 2, 8
"""Rows of the two runs."""
HOST_BYTES = 64 << 20
HOST_ROWS = 16, 4096
"""What a piece on a CPU takes, and its rows at least and at most, as far as memory allows.

Larger pieces fall out of the caches, and the system hands out and takes back their pages. CPU time per row on one thread (AMD
EPYC, 32 MB of L3): the CNN of the benchmarks 159 us at 512 rows (41 MB), 195 at 2048, 254 at 8192; the WRN 27 ms at 32 rows
(180 MB), 35 at 128; the perceptron 115 us from 512 to 4096 rows, 124 at 8192. Fewer rows than these leave the fixed cost of
a call to few of them: 269 us a row at 32 rows of the CNN, 30 ms at 8 of the WRN.
"""
GROUP = Path("/sys/fs/cgroup")
"""Where a container's own limit on memory stands."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the bytes of tensors made while it is on; `peak` is the most that were alive at once."""

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
    """Give the bytes that a step on this batch has alive at its peak, the batch with it, beyond model and sums."""
    sums, bounds = engine.zeros(), engine.bounds()
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
    """Give how many rows a step should take at once: `limit`, or a power of two below it.

    They fit in memory and, on a CPU, are no more than it works through at full speed. Torch's own generator is left as it was.

    Args:
        synthetic: Makes n made-up rows on the device.
        memory: Bytes that a step may take; a share of what the device has left where none is given.
        grouped: Whether the rows of a step belong to units, which takes memory for laying them side by side.
        steady: Whether the answer is to be the same again: it then follows the memory that there is, not what is left of it.
    """
    device = engine.bounds().device

    def needed(rows: int) -> int:
        return step_bytes(
            engine, synthetic(rows), units=numpy.arange(rows) // 2 if grouped else None
        )

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        few, more = needed(FEW), needed(MORE)
        per_row = max(1.0, (more - few) / (MORE - FEW))
        room = (
            memory
            if memory is not None
            else SHARE * (whole_memory(device) if steady else memory_left(device))
        )
        fitting = (room - max(0.0, few - FEW * per_row)) / per_row
        if memory is None and device.type == "cpu":
            fitting = min(fitting, max(HOST_ROWS[0], HOST_BYTES / per_row), HOST_ROWS[1])
        size = limit if fitting >= limit else 2 ** math.floor(math.log2(max(1.0, fitting)))
        while size > 1 and not _fits(needed, size, room=room):
            size = 2 ** math.floor(math.log2(size - 1))
    return size


def memory_left(device: torch.device) -> float:
    """Give the bytes that are free on a device."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    used = _number(GROUP / "memory.current")
    return min(
        _meminfo("MemAvailable"),
        _number(GROUP / "memory.max") - (used if math.isfinite(used) else 0.0),
    )


def whole_memory(device: torch.device) -> float:
    """Give the bytes of a device, whoever uses them."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[1])
    return min(_meminfo("MemTotal"), _number(GROUP / "memory.max"))


def _meminfo(field: str) -> float:
    table = Path("/proc/meminfo")
    lines = table.read_text().splitlines() if table.exists() else []
    return next(
        (1024.0 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 2.0**32
    )


def _number(file: Path) -> float:
    """Give the number in a file; infinity where there is none, as where a limit is `max`."""
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return math.inf


def _fits(needed: Callable[[int], int], rows: int, *, room: float) -> bool:
    """Try it: a model's memory need not grow in proportion to its rows."""
    try:
        return needed(rows) <= room
    except torch.OutOfMemoryError:
        return False


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
