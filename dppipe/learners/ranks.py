"""Several processes as one: a logical batch is drawn once, shared, summed, noised and broadcast.

The first rank makes the sampler's key and keeps the ledger. The others draw the same batch from the
same key and take their share of it, so the batch is one global draw whatever the number of
processes. The sum is taken and noised on the first rank. The loop over physical batches has no
collective: ranks with unequal or empty shares can't wait for each other forever.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from dppipe.errors import DppipeError

if TYPE_CHECKING:
    import numpy
    from torch import Tensor


class LostProcess(DppipeError):
    """Another process of a run is gone, or can't be reached; the run can be resumed."""


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the rank that charges, adds noise and writes."""
        return self.rank == 0

    def share(self, indices: numpy.ndarray) -> numpy.ndarray:
        """Return this rank's part of a draw; the parts of all ranks are disjoint and cover it."""
        return indices[self.rank :: self.world]

    def sum_(self, flat: Tensor) -> None:
        """Add up the buffers of all ranks in the first rank's buffer."""
        if self.world > 1:
            dist.reduce(flat, dst=0)

    def broadcast_(self, flat: Tensor) -> None:
        """Copy the first rank's buffer to every rank."""
        if self.world > 1:
            dist.broadcast(flat, src=0)

    def agree(self, value: Any) -> Any:
        """Return the first rank's value on every rank; it travels in memory only."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def any(self, flag: bool) -> bool:
        """Return whether the flag is true on any rank."""
        if self.world == 1:
            return flag
        flags = [False] * self.world
        dist.all_gather_object(flags, flag)
        return any(flags)


@contextmanager
def naming_lost_ranks() -> Iterator[None]:
    """Turn the error of a process that has lost another into one that says so.

    A process that was killed ends the run; its charges are kept.
    """
    try:
        yield
    except RuntimeError as error:
        if not _comes_from_torch_distributed(error):
            raise
        raise LostProcess(
            "performance.devices: expected every process to take part, lost one or the way to it "
            f"({type(error).__name__}). "
            "What was charged stays charged: go on with dppipe resume."
        ) from error


def leave_group() -> None:
    """Leave the process group, if there is one.

    A process that exits without leaving is ended by its own threads.
    """
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def _comes_from_torch_distributed(error: BaseException) -> bool:
    package = Path(dist.__file__).parent
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    return any(file.is_relative_to(package) for file in files)
