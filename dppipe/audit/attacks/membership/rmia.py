"""RMIA: does the model favour a record over other records of the population (Zarifzadeh, Liu and
Shokri 2024)?

A record's probability is divided by what models without it give it. The score is the share of
population records whose ratio is smaller. Few reference models suffice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from dppipe.audit.attacks.membership.roc import area_under

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]

DEFAULT_A = 0.3
"""How much a record's own models weigh against the constant 1, where nothing shows what is best."""
_CANDIDATES = tuple(step / 10 for step in range(11))
_LEAST = 1e-300


def likelihood_ratios(probabilities: Floats, outside: Floats, *, a: float) -> Floats:
    """Return p(x) / pr(x), with pr(x) = ((1 + a) p_out(x) + (1 - a)) / 2.

    Args:
        probabilities: `[n]`, of the true labels, by the model under attack.
        outside: `[n]`, the mean by models without the record.
        a: A number from 0 to 1.
    """
    prior = ((1 + a) * outside + (1 - a)) / 2
    return numpy.asarray(probabilities / numpy.maximum(prior, _LEAST))


def rmia_scores(ratios: Floats, population: Floats, *, gamma: float = 1.0) -> Floats:
    """Return the share of population records with ratio(x) / ratio(z) > gamma, `[n]`."""
    in_order = numpy.sort(population * gamma)
    return numpy.asarray(numpy.searchsorted(in_order, ratios, side="left") / len(population))


def mean_outside(shadows: Floats, inside: NDArray[numpy.bool_]) -> Floats:
    """Return the mean of `[shadows, n]` over the shadows that haven't seen a record, `[n]`."""
    return numpy.asarray(numpy.where(inside, 0.0, shadows).sum(axis=0) / (~inside).sum(axis=0))


def best_a(shadows: Floats, inside: NDArray[numpy.bool_]) -> float:
    """Return the `a` with which the attack on the first shadow, whose members are known, is best.

    The second shadow is left out: what it hasn't seen, the first has.
    """
    if len(shadows) < 4:
        return DEFAULT_A
    outside = mean_outside(shadows[2:], inside[2:])
    areas = []
    for a in _CANDIDATES:
        ratios = likelihood_ratios(shadows[0], outside, a=a)
        areas.append(area_under(ratios[inside[0]], ratios[~inside[0]]))
    return _CANDIDATES[int(numpy.argmax(areas))]
