"""Several processes as one: a logical step is drawn once, shared out, summed onto the first rank, noised there, and handed out.

The first rank makes the sampler's key and keeps the ledger; the others draw the same batch from the same key and take their
share of it, so the batch is one global draw whatever the number of processes. No collective stands inside the loop over
pieces: ranks with unequal or empty shares can't wait for each other forever.
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
        """Give this rank's part of a draw; the parts of all ranks are disjoint and make up the whole."""
        return indices[self.rank :: self.world]

    def sum_(self, flat: Tensor) -> None:
        """Add up the buffers of all ranks onto the first rank's."""
        if self.world > 1:
            dist.reduce(flat, dst=0)

    def hand_out_(self, flat: Tensor) -> None:
        """Give every rank the first rank's buffer."""
        if self.world > 1:
            dist.broadcast(flat, src=0)

    def agree(self, value: Any) -> Any:
        """Give every rank the first rank's value; it travels in memory only."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def any(self, flag: bool) -> bool:
        """Say whether the flag is up on any rank."""
        if self.world == 1:
            return flag
        flags = [False] * self.world
        dist.all_gather_object(flags, flag)
        return any(flags)


@contextmanager
def naming_lost_ranks() -> Iterator[None]:
    """Say so where a process has waited in vain for another: one that was killed ends the run, with its charges kept."""
    try:
        yield
    except RuntimeError as error:
        frames = traceback.extract_tb(error.__traceback__)
        if not any(
            Path(frame.filename).is_relative_to(Path(dist.__file__).parent) for frame in frames
        ):
            raise
        raise DppipeError(
            f"performance.devices: expected every process to take part, lost one or the way to it ({type(error).__name__}). "
            "What was charged stays charged: go on with dppipe resume."
        ) from error


def leave_group() -> None:
    """Part from the other ranks, where there are any: a process that exits without it is ended by its own threads."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
