"""LiRA, online: how likely is a confidence under models with the record, and without (Carlini et
al. 2022)?

Confidences are taken as Gaussian. With few shadows a record's own spread is a poor estimate, and
one spread is taken for all records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]

ENOUGH_FOR_OWN_SPREAD = 64
"""From this many shadows on, each record has a spread of its own."""
_LEAST_SPREAD = 1e-6


def lira_scores(confidences: Floats, shadows: Floats, inside: NDArray[numpy.bool_]) -> Floats:
    """Return ln N(phi; of models with the record) - ln N(phi; of models without it), `[n]`.

    Args:
        confidences: `[n]`, of the model under attack.
        shadows: `[shadows, n]`
        inside: `[shadows, n]`: whether a shadow has seen a record.
    """
    with_record = centre_and_spread(shadows, inside)
    without = centre_and_spread(shadows, ~inside)
    likely = stats.norm.logpdf(confidences, *with_record)
    return numpy.asarray(likely - stats.norm.logpdf(confidences, *without))


def centre_and_spread(shadows: Floats, chosen: NDArray[numpy.bool_]) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each record's chosen confidences: `[n]` each.

    With fewer than 64 shadows the deviation is one for all records: that of the differences from
    each record's mean, or of all values where a record has one value only.
    """
    counts = chosen.sum(axis=0)
    means = numpy.where(chosen, shadows, 0.0).sum(axis=0) / counts
    squares = numpy.where(chosen, (shadows - means) ** 2, 0.0).sum(axis=0)
    if len(shadows) >= ENOUGH_FOR_OWN_SPREAD:
        spreads = numpy.sqrt(squares / counts)
    else:
        freedom = int((counts - 1).sum())
        common = squares.sum() / freedom if freedom else numpy.var(shadows[chosen])
        spreads = numpy.full(shadows.shape[1], numpy.sqrt(common))
    return means, numpy.maximum(spreads, _LEAST_SPREAD)
