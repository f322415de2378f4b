"""How many records go through the model at once, where the spec says `auto`.

The size is found on made-up records before the first step. It changes memory and speed, and the
result only by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dppipe.clipper_abilities import Averages
from dppipe.engine import Engine, find_physical_batch_size

if TYPE_CHECKING:
    from dppipe.learners.records.loader import PrivateLoader
    from dppipe.planning.step_plan import StepPlan

BASELINE_SIZE = 512
"""The size without a budget: the engine, whose memory would be measured, does nothing there."""


def choose_physical_batch_size(
    engine: Engine, loader: PrivateLoader, plan: StepPlan, *, place: Callable[[Any], Any]
) -> int:
    """Return the size that the sampler names or, for `auto`, one that fits and is fast.

    Guarantees:
    - Only made-up records go through the model to find it.
    - Only public numbers and the machine's memory decide it. In a reproducible run the memory that
      happens to be free doesn't, so that the order of additions is the same every time.
    """
    wanted = loader.sampler.physical_batch_size
    if wanted != "auto":
        return wanted
    if not plan.private:
        return BASELINE_SIZE
    return find_physical_batch_size(
        engine,
        lambda rows: place(loader.synthetic(rows)),
        limit=likely_records(plan, loader),
        grouped=loader.index.unit_of is not None or isinstance(engine.clipper, Averages),
        steady=plan.reproducible,
    )


def likely_records(plan: StepPlan, loader: PrivateLoader) -> int:
    """Return a number that the records of one rank's share of a batch hardly ever exceed.

    It follows from public numbers.
    """
    drawn = plan.largest_likely_batch
    if drawn is None:
        expected = plan.expected_batch_size
        for run in plan.batches:
            expected = max(expected, run.expected_batch_size)
        drawn = math.ceil(expected + 5 * math.sqrt(expected) + 5)
    return max(1, math.ceil(drawn * loader.index.at_most / loader.ranks.world))
