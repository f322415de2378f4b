"""The claim in two plain sentences, or that there is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dppipe.privacy.budget import Relation
from dppipe.privacy.printing import shown, shown_delta
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan

NOT_PRIVATE = (
    "NOT PRIVATE: this run has no privacy budget, and its model may reveal any record that it was "
    "trained on.",
    "Nothing about it can be promised to the people behind the records.",
)
FAILED = (
    "NO CLAIM: this run ended by an error, and that it did may depend on a record.",
    "Its checkpoints are not private: don't release them. What it was charged stays spent.",
)
SPLIT_BY_POSITION = (
    "NO CLAIM: an earlier version of dppipe split the records by position, "
    "and under add_remove one record then decides where others go.",
    "The epsilon of its plan doesn't cover that. Train again: `dppipe run` splits by a hash of "
    "each record.",
)
SEEDED = (
    "This run gives no protection: seeded, so that whoever knows the seed can take the noise away "
    "again."
)
UNBOUNDED = (
    "NOT PRIVATE: no finite epsilon is proven at this delta.",
    "Raise the noise or delta, lower the number of steps, or take another accountant.",
)
AN_ESTIMATE = (
    "The true cost may be higher; only a certified accountant (rdp, for instance) gives a promise."
)

_DIFFERENCE = {
    "zero_out": "one {unit}'s contribution being there or being nothing, where the number of "
    "{units} is public",
    "add_remove": "one {unit} being in the data or not, where even the number of {units} is secret",
    "replace_one": "one {unit} being replaced by any other, where the number of {units} is public",
}
_WITHOUT = {
    "zero_out": "had any one {unit} contributed nothing",
    "add_remove": "had any one {unit} not been in the data",
    "replace_one": "had any one {unit} been another",
}


def guarantee_sentences(
    *,
    epsilon: float | None,
    delta: float | None,
    relation: Relation | None,
    unit: str = "example",
    certified: bool = True,
    private: bool = True,
    reproducible: bool = False,
    failed: bool = False,
    split_by_position: bool = False,
) -> tuple[str, str]:
    """Return what is promised in two plain sentences, or that nothing is."""
    if not private or epsilon is None or delta is None or relation is None:
        return NOT_PRIVATE
    if failed:
        return FAILED
    if split_by_position:
        return SPLIT_BY_POSITION
    claim = f"({shown(epsilon)}, {shown_delta(delta)})-differentially private"
    difference = _DIFFERENCE[relation].format(unit=unit, units=units_of(unit))
    if reproducible:
        would_be = f"With fresh randomness the same plan would be {claim}"
        return SEEDED, f"{would_be} with respect to {difference}."
    if epsilon == math.inf:
        return UNBOUNDED
    if not certified:
        thought = f"ESTIMATE, not a guarantee: the run is thought to be about {claim}"
        return f"{thought} with respect to {difference}.", AN_ESTIMATE
    return (
        f"What is released is {claim} with respect to {difference}.",
        f"Whatever is concluded from it is at most {growth(epsilon)} times as probable as it would "
        f"be {_WITHOUT[relation].format(unit=unit)}, plus a probability of {shown_delta(delta)}.",
    )


def one_of(unit: str) -> str:
    """Return what one unit is called."""
    return "user" if unit == "user" else "record"


def units_of(unit: str) -> str:
    """Return what several units are called."""
    return "users" if unit == "user" else "records"


def growth(epsilon: float) -> str:
    """Return by how much a probability may grow, e^epsilon, rounded up."""
    if epsilon >= 700:
        return f"e^{shown(epsilon)}"
    times = round_up(math.exp(epsilon), 3)
    if 1e3 <= times < 1e9:
        return f"{times:,.0f}"
    return f"{times:.3g}"


def guarantee_of_plan(
    plan: Plan, *, failed: bool = False, split_by_position: bool = False
) -> tuple[str, str]:
    """Return what a plan promises, or what a run of it does, in two plain sentences."""
    return guarantee_sentences(
        epsilon=plan.epsilon,
        delta=plan.delta,
        relation=plan.relation,
        unit=plan.unit,
        certified=plan.certified,
        private=plan.private,
        reproducible=plan.reproducible,
        failed=failed,
        split_by_position=split_by_position,
    )
