"""How many rows fit in memory at once, found on made-up input: private records never decide it.

A step is run on a few made-up rows while a dispatch mode adds up the bytes of every tensor that is alive; two such runs give the
bytes per row. What the memory left allows follows, and is tried on made-up rows where running out can be caught.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dppipe.engine.engine import Engine

SHARE = 0.5
"""The share of the memory left that a step may plan with: kernels take some of their own, and other work goes on."""
FEW, MORE = 2, 8
"""Rows of the two runs."""


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


def step_bytes(engine: Engine, batch: Any) -> int:
    """Give the bytes that a step on this batch has alive at its peak, the batch with it, beyond model and sums."""
    sums, bounds = engine.zeros(), engine.bounds()
    engine.prepare(batch)
    with LiveBytes() as live:
        engine.accumulate(batch, sums, bounds=bounds)
    whole: int = live.peak + sum(tensor.nbytes for tensor in _tensors(batch))
    return whole


def find_physical_batch_size(engine: Engine, synthetic: Callable[[int], Any], *, limit: int, memory: int | None = None) -> int:
    """Give the most rows, up to `limit`, whose step fits in memory; `synthetic(n)` makes n made-up rows on the device.

    Args:
        memory: Bytes that a step may take; a share of what the device has left where none is given.
    """
    few, more = step_bytes(engine, synthetic(FEW)), step_bytes(engine, synthetic(MORE))
    per_row = max(1.0, (more - few) / (MORE - FEW))
    room = (SHARE * memory_left(engine.bounds().device) if memory is None else memory) - max(0.0, few - FEW * per_row)
    size = max(1, min(limit, int(room / per_row)))
    while size > 1 and not _fits(engine, synthetic, size):
        size //= 2
    return size


def memory_left(device: torch.device) -> float:
    """Give the bytes that are free on a device."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    available = [line for line in _meminfo() if line.startswith("MemAvailable:")]
    return 1024.0 * int(available[0].split()[1]) if available else 2.0**32


def _meminfo() -> list[str]:
    table = Path("/proc/meminfo")
    return table.read_text().splitlines() if table.exists() else []


def _fits(engine: Engine, synthetic: Callable[[int], Any], rows: int) -> bool:
    if engine.bounds().device.type == "cpu":
        return True  # The host doesn't refuse memory in time to be asked.
    try:
        engine.accumulate(synthetic(rows), engine.zeros(), bounds=engine.bounds())
    except torch.OutOfMemoryError:
        return False
    return True


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
