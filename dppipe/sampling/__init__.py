"""Samplers: how a step's records are drawn.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.sampling.balls_in_bins import BallsInBins
    from dppipe.sampling.base import Sampler
    from dppipe.sampling.full_batch import FullBatch
    from dppipe.sampling.poisson import Poisson
    from dppipe.sampling.shuffle import Shuffle
    from dppipe.sampling.truncated_poisson import TruncatedPoisson
    from dppipe.sampling.user import User
    from dppipe.sampling.with_replacement import WithReplacement
    from dppipe.sampling.without_replacement import WithoutReplacement

__all__ = [
    "BallsInBins",
    "FullBatch",
    "Poisson",
    "Sampler",
    "Shuffle",
    "TruncatedPoisson",
    "User",
    "WithReplacement",
    "WithoutReplacement",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BallsInBins": ".balls_in_bins",
        "FullBatch": ".full_batch",
        "Poisson": ".poisson",
        "Sampler": ".base",
        "Shuffle": ".shuffle",
        "TruncatedPoisson": ".truncated_poisson",
        "User": ".user",
        "WithReplacement": ".with_replacement",
        "WithoutReplacement": ".without_replacement",
    },
)
