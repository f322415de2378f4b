"""The best of a random number of runs, of which only that one is released.

Guarantee: for runs that are alike, and a number of runs that is drawn in secret from the stated
distribution: truncated negative binomial of a shape h >= 0 (logarithmic for 0, geometric for 1), or
Poisson, whose shape is infinite. By divergences it is that of Papernot and Steinke (2022), by
privacy curves that of `selection/PROOF.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, rule_of
from dppipe.privacy.events.plain import plain_form
from dppipe.privacy.events.sequences import as_one_event, merge
from dppipe.privacy.proofs import EVERY_RELATION, Proof

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction
    from dppipe.privacy.rdp.curve import RenyiCurve

_LARGEST_MEAN = 1e9


def _parts(event: Any) -> list[tuple[DpEvent, int]] | None:
    """One run for certain is no selection, and the best of nothing is nothing."""
    if not merge([(event.event, 1)]):
        return []
    once = event.mean == 1 and event.shape != math.inf and plain_form(event) is not None
    return [(event.event, 1)] if once else None


def _canonical(event: Any) -> DpEvent:
    import attr

    made: Any = plain_form(attr.evolve(event, event=as_one_event(merge([(event.event, 1)]))))
    if not 1 <= made.mean <= _LARGEST_MEAN:
        raise PrivacyRefusal(
            f"event.mean: expected a number from 1 to {_LARGEST_MEAN:g}, got {made.mean}."
        )
    selection: DpEvent = made
    return selection


def _each(event: Any, test: Callable[[DpEvent], bool]) -> bool:
    return all(test(part) for part in merge([(event.event, 1)]))


def _has_proof(event: DpEvent, accountant: str, relation: Relation) -> bool:
    proof = rule_of(event).proof(accountant, event, relation=relation)
    return proof is not None and not proof.estimate


def _has_divergences(event: Any, relation: Relation) -> bool:
    return _each(event, lambda part: _has_proof(part, "rdp", relation))


def _has_losses(event: Any, relation: Relation) -> bool:
    return _each(event, lambda part: _has_proof(part, "pld", relation))


def _is_pure(event: Any, relation: Relation) -> bool:
    if event.shape == math.inf:
        return False
    proven = _each(event, lambda part: _has_proof(part, "basic", relation))
    return proven and _own_delta(event) == 0


def _own_delta(event: Any) -> float | None:
    from dppipe.privacy.textbook.one_step import own_delta

    return 0.0 if _each(event, lambda part: own_delta(part) == 0) else None


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    import numpy as np

    from dppipe.privacy.rdp.curve import RenyiCurve
    from dppipe.privacy.rdp.divergences import ORDERS, divergences, moment_round_off
    from dppipe.privacy.rdp.selection import poisson_selection_divergences, selection_divergences
    from dppipe.privacy.selection.repetitions import Repetitions

    tried = tuple(map(float, np.unique([*orders, *ORDERS])))
    one = RenyiCurve.zero(tried)
    for part, count in merge([(event.event, 1)]).items():
        one = one.plus(divergences(part, relation=relation, orders=tried), count)
    places = np.searchsorted(tried, orders)
    grid = np.asarray(tried)
    if event.shape == math.inf:
        delta = _smaller_delta(event, relation, one)
        found = poisson_selection_divergences(grid, one.divergences, mean=event.mean, delta=delta)
    else:
        repetitions = Repetitions(mean=event.mean, shape=event.shape)
        found = selection_divergences(grid, one.divergences, repetitions=repetitions)
    return found[places] + moment_round_off(orders)


def _smaller_delta(event: Any, relation: Relation, one: RenyiCurve) -> Callable[[float], float]:
    """Return one run's delta at an epsilon: by its divergences, or by its losses where known."""
    from dppipe.privacy.selection.events import run_curve

    if not _has_losses(event, relation):
        return one.delta
    losses = run_curve(event.event, relation=relation)
    return lambda epsilon: min(one.delta(epsilon), losses.delta(epsilon))


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.selection.events import selection_curve

    return selection_curve(event, relation=relation).chords.directions()


def _reach(event: Any, relation: Relation) -> float:
    """Return the largest loss that is known by a chord; the rest counts as infinite."""
    from dppipe.privacy.selection.events import selection_curve

    return selection_curve(event, relation=relation).chords.reach()


def _one_step(event: Any, relation: Relation, delta: float) -> float:
    from dppipe.privacy.textbook.one_step import step_epsilon

    epsilons: list[float] = []
    for part, count in merge([(event.event, 1)]).items():
        epsilons.append(count * step_epsilon(part, delta=delta, relation=relation))
    return (2 + float(event.shape)) * math.fsum(epsilons) * (1 + 2.0**-48)


RULE = EventRule(
    name="RepeatAndSelectDpEvent",
    fields={"event": "event", "mean": "float", "shape": "shape"},
    meaning=(
        "The best of K runs of `event`, K drawn in secret with this `mean`: Poisson for an "
        "infinite `shape`, else truncated negative binomial. The relation is that of the runs."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=EVERY_RELATION,
            source="`selection/PROOF.md`, lemma 3: E[K] delta(epsilon - c)",
            case="runs that pld bounds",
            holds=_has_losses,
        ),
        Proof(
            accountants=("rdp",),
            relations=EVERY_RELATION,
            source="Papernot and Steinke 2022, theorem 2; theorem 6 for Poisson",
            case="runs that rdp bounds",
            holds=_has_divergences,
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=EVERY_RELATION,
            source="Papernot and Steinke 2022, theorem 2 at order infinity: (2 + shape) epsilon",
            case="runs that are private with delta 0, and a finite shape",
            holds=_is_pure,
        ),
    ),
    parts=_parts,
    canonical=_canonical,
    profile=_profile,
    reach=_reach,
    divergences=_divergences,
    one_step=_one_step,
    own_delta=_own_delta,
)
