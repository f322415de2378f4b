"""The entry point of this package: from counted events to privacy curves.

The rest of dppipe imports `dppipe.privacy.pld` and nothing inside it; a test checks that.

Guarantee: a curve with `certified` set lies at or above the true privacy curve of its events, for
events that were fixed before any record was read. `PROOF.md` has the argument.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dppipe.privacy.pld.convolution import convolved
from dppipe.privacy.pld.curves import LossCurve, loss_curves
from dppipe.privacy.pld.distributions import LARGEST_LOSS, Losses
from dppipe.privacy.pld.grid import LossPmf

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation

    _Stages = tuple[tuple[tuple[DpEvent, int], ...], ...]


def compose(
    stages: Sequence[Mapping[DpEvent, int]],
    *,
    relation: Relation,
    distinct: int | None = 150,
    finest: float = 1e-4,
) -> tuple[LossCurve, ...]:
    """Return the privacy curve after each stage; a stage adds its events to all those before it.

    A plan asks for one composition several times, so the last few are remembered.

    Args:
        stages: Events and how many times each is done, in parts.
        relation: What neighbouring datasets differ in.
        distinct: The most distinct events to compose; others are rounded onto them.
        finest: The finest interval of the grid to start with.

    Example:
        >>> from dp_accounting import GaussianDpEvent
        >>> from dppipe.privacy.pld import compose
        >>> (curve,) = compose([{GaussianDpEvent(10.0): 100}], relation="zero_out")
        >>> 4.3 < curve.epsilon(1e-5) < 4.4
        True
    """
    key = tuple(tuple(stage.items()) for stage in stages)
    return _remembered(key, relation=relation, distinct=distinct, finest=finest)


@functools.lru_cache(maxsize=3)
def _remembered(
    stages: _Stages, *, relation: Relation, distinct: int | None, finest: float
) -> tuple[LossCurve, ...]:
    counts = [dict(stage) for stage in stages]
    return tuple(loss_curves(counts, relation=relation, distinct=distinct, finest=finest))


def compose_equal(epsilon: float, *, delta: float, count: int) -> LossCurve:
    """Return the privacy curve of `count` mechanisms of which only (epsilon, delta) is known.

    The worst such mechanism has the loss +epsilon or -epsilon, and reveals everything with
    probability delta (Kairouz, Oh and Viswanath 2015, theorem 3.3). It is composed on the grid of
    whole epsilons, where nothing has to be rounded.
    """
    exposed = -math.expm1(count * math.log1p(-delta)) * (1 + 2.0**-48)  # it is subtracted later
    if epsilon > LARGEST_LOSS:
        return LossCurve(None, exposed=1.0, interval=epsilon, rounding=0.0)
    if count == 0 or epsilon == 0:
        return LossCurve(None, exposed=exposed, interval=epsilon, rounding=0.0)
    likely = 1 / (1 + math.exp(-epsilon))
    worst = np.array([math.exp(-epsilon) * likely, 0.0, likely]) * (1 + 2.0**-48)
    (composed,) = convolved([{LossPmf(-1, worst, 0.0): count}])
    losses = Losses((composed,), epsilon)
    return LossCurve(losses, exposed=exposed, interval=epsilon, rounding=0.0)
