"""Samplers: how a step's records are drawn. One kind a file, named after it; `base` is the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.sampling.base import Sampler
    from dppipe.sampling.full_batch import FullBatch
    from dppipe.sampling.poisson import Poisson
    from dppipe.sampling.truncated_poisson import TruncatedPoisson
    from dppipe.sampling.with_replacement import WithReplacement
    from dppipe.sampling.without_replacement import WithoutReplacement

__all__ = ["FullBatch", "Poisson", "Sampler", "TruncatedPoisson", "WithReplacement", "WithoutReplacement"]

__getattr__ = lazy_names(
    __name__,
    {
        "FullBatch": ".full_batch",
        "Poisson": ".poisson",
        "Sampler": ".base",
        "TruncatedPoisson": ".truncated_poisson",
        "WithReplacement": ".with_replacement",
        "WithoutReplacement": ".without_replacement",
    },
)
