"""From events to curves: that of one run, and that of the best of several.

A run that is one of several candidates, or that touches disjoint sets of records, has a curve that
is made of theirs (`joint.py`). Every other run is composed as usual.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dppipe.privacy.events.base import proven_rule
from dppipe.privacy.events.sequences import gaussian_precision, merge
from dppipe.privacy.selection.chords import Chords, read_chords
from dppipe.privacy.selection.costs import SelectionCurve
from dppipe.privacy.selection.joint import LargestOf, WeightedSum
from dppipe.privacy.selection.repetitions import Repetitions

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.accountants.base import PrivacyCurve
    from dppipe.privacy.budget import Relation
    from dppipe.privacy.events.sequences import Counts

_NAME = "RepeatAndSelectDpEvent"


def run_curve(
    event: DpEvent, *, relation: Relation, distinct: int | None = 150, finest: float = 1e-4
) -> PrivacyCurve:
    """Return the privacy curve of one run, by its losses; refuse a run without a proof.

    Args:
        event: All that one run releases.
        relation: What neighbouring datasets differ in.
        distinct: The most distinct events to compose; others are rounded onto them.
        finest: The finest interval of the grid to start with.
    """
    counts = merge([(event, 1)])
    for part in counts:
        proven_rule("pld", part, relation=relation)
    if len(counts) == 1:
        ((part, count),) = counts.items()
        inner = functools.partial(run_curve, relation=relation, distinct=distinct, finest=finest)
        if count == 1 and type(part).__name__ == "OneOfDpEvent":
            one_of: Any = part
            return WeightedSum(tuple(map(inner, one_of.events)), one_of.weights)
        if count == 1 and type(part).__name__ == "DisjointDpEvent":
            disjoint: Any = part
            return LargestOf(tuple(map(inner, disjoint.events)))
    return _composed(tuple(counts.items()), relation=relation, distinct=distinct, finest=finest)


@functools.lru_cache(maxsize=32)
def _composed(
    counts: tuple[tuple[DpEvent, int], ...],
    *,
    relation: Relation,
    distinct: int | None,
    finest: float,
) -> PrivacyCurve:
    from dppipe.privacy.gaussian import GaussianCurve
    from dppipe.privacy.pld import compose

    precision = gaussian_precision(dict(counts), relation=relation)
    if precision is not None:
        return GaussianCurve(precision**0.5)
    (curve,) = compose([dict(counts)], relation=relation, distinct=distinct, finest=finest)
    return curve


@functools.lru_cache(maxsize=32)
def run_chords(event: DpEvent, *, relation: Relation) -> Chords:
    """Return the profile of one run, through points of its curve."""
    return read_chords(run_curve(event, relation=relation))


@functools.lru_cache(maxsize=32)
def selection_curve(
    event: DpEvent, *, relation: Relation, distinct: int | None = 150, finest: float = 1e-4
) -> SelectionCurve:
    """Return the privacy curve of a selection, by the curve of one run."""
    selection: Any = event
    run = run_curve(selection.event, relation=relation, distinct=distinct, finest=finest)
    repetitions = Repetitions(mean=selection.mean, shape=selection.shape)
    return SelectionCurve(run, repetitions)


def only_selection(
    counts: Counts, *, relation: Relation, distinct: int | None, finest: float
) -> SelectionCurve | None:
    """Return the curve of one selection; None where something else is charged beside it."""
    if len(counts) != 1:
        return None
    ((event, count),) = counts.items()
    if count != 1 or type(event).__name__ != _NAME:
        return None
    proven_rule("pld", event, relation=relation)
    return selection_curve(event, relation=relation, distinct=distinct, finest=finest)
