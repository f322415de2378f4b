"""How searches are limited: by a number of steps, and by the clock as a last resort.

Steps are counted, so that a search with the same seed finds the same. The clock only ends one that
takes too long; what it has found by then is reported as unfinished.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from dppipe.audit.attacks.gradients.knowledge import Recovered

DEFAULT_SEED = 0
"""The seed of the attacks' own starts: public, and printed."""


@dataclass(frozen=True)
class Search:
    """The limits of one search."""

    steps: int
    restarts: int = 1
    seed: int = DEFAULT_SEED
    ends: float = math.inf
    """When the clock (`time.monotonic`) ends the search."""

    @property
    def is_late(self) -> bool:
        """Whether the clock ends the search now."""
        return time.monotonic() > self.ends


def best_of_starts(
    search: Search, from_one_start: Callable[[torch.Generator], Recovered]
) -> Recovered:
    """Return the best result of all starts by the search's own cost; each has its public seed."""
    results: list[Recovered] = []
    for number in range(search.restarts):
        generator = torch.Generator().manual_seed(search.seed + number)
        results.append(from_one_start(generator))
    return min(results, key=lambda found: found.cost)
