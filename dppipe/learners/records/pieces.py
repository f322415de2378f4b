"""How many records go through the model at once, where the spec leaves that to dppipe.

It is found on made-up records before the first step and changes memory and speed, never the result but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dppipe.clipper_abilities import Averages
from dppipe.engine import Engine, find_physical_batch_size

if TYPE_CHECKING:
    from dppipe.learners.records.loader import PrivateLoader
    from dppipe.planning.plan import Plan

BASELINE_PIECE = 512
"""Records at once without a budget: there the engine, whose memory would be measured, has nothing to do."""


def choose_piece(
    engine: Engine, loader: PrivateLoader, plan: Plan, *, place: Callable[[Any], Any]
) -> int:
    """Give the physical batch size that the sampler names or, for `auto`, one that fits and is fast.

    Guarantee: only made-up records go through the model for it, and only public numbers and the machine's memory decide it. In a
    reproducible run it doesn't follow the memory that is free at the moment, so that the order of additions is the same again.
    """
    wanted = loader.sampler.physical_batch_size
    if wanted != "auto":
        return wanted
    if not plan.private:
        return BASELINE_PIECE
    return find_physical_batch_size(
        engine,
        lambda rows: place(loader.synthetic(rows)),
        limit=likely_records(plan, loader),
        grouped=loader.users is not None or isinstance(engine.clipper, Averages),
        steady=plan.reproducible,
    )


def likely_records(plan: Plan, loader: PrivateLoader) -> int:
    """Give a number that the records of one rank's share of a batch hardly ever exceed, from public numbers."""
    drawn = plan.largest_likely_batch
    if drawn is None:
        expected = max(
            [plan.expected_batch_size, *(run.expected_batch_size for run in plan.batches)]
        )
        drawn = math.ceil(expected + 5 * math.sqrt(expected) + 5)
    each = loader.sampler.records_per_unit or 1
    return max(1, math.ceil(drawn * each / loader.ranks.world))
