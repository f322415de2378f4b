"""The claim in plain sentences, and how its numbers are written: epsilon and delta are always rounded up."""

from __future__ import annotations

import math

from dppipe.privacy.budget import Relation
from dppipe.privacy.rounding import round_up

EPSILON_DIGITS = 4
"""More digits of epsilon than this would be below the accountants' numerical error."""


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
) -> tuple[str, str]:
    """Say what is promised in two plain sentences, or that nothing is."""
    if not private or epsilon is None or delta is None or relation is None:
        return (
            "NOT PRIVATE: this run has no privacy budget, and its model may reveal any record that it was trained on.",
            "Nothing about it can be promised to the people behind the records.",
        )
    if failed:
        return (
            "NO CLAIM: this run ended by an error, and that it did may depend on a record.",
            "Its checkpoints are not private: don't release them. What it was charged stays spent.",
        )
    claim = f"({shown(epsilon)}, {shown_delta(delta)})-differentially private"
    difference = _DIFFERENCE[relation].format(unit=unit, units="users" if unit == "user" else "records")
    if reproducible:
        return (
            "This run gives no protection: seeded, so that whoever knows the seed can take the noise away again.",
            f"With fresh randomness the same plan would be {claim} with respect to {difference}.",
        )
    if epsilon == math.inf:
        return (
            "NOT PRIVATE: no finite epsilon is proven at this delta.",
            "Raise the noise or delta, lower the number of steps, or take another accountant.",
        )
    if not certified:
        return (
            f"ESTIMATE, not a guarantee: the run is thought to be about {claim} with respect to {difference}.",
            "The true cost may be higher; only a certified accountant (rdp, for instance) gives a promise.",
        )
    return (
        f"What is released is {claim} with respect to {difference}.",
        f"Whatever is concluded from it is at most {_factor(epsilon)} as probable as it would be "
        f"{_WITHOUT[relation].format(unit=unit)}, plus a probability of {shown_delta(delta)}: {_tier(epsilon)} protection.",
    )


def shown(epsilon: float) -> str:
    """Write an epsilon for people, rounded up."""
    return f"{round_up(epsilon, EPSILON_DIGITS):g}" if epsilon < 1e4 else f"{round_up(epsilon, 2):.2g}"


def shown_delta(delta: float) -> str:
    """Write a delta for people, rounded up where it has many digits."""
    return f"{round_up(delta, 6):g}"


_DIFFERENCE = {
    "zero_out": "one {unit}'s contribution being there or being nothing, where the number of {units} is public",
    "add_remove": "one {unit} being in the data or not, where even the number of {units} is secret",
    "replace_one": "one {unit} being replaced by any other, where the number of {units} is public",
}
_WITHOUT = {
    "zero_out": "had any one {unit} contributed nothing",
    "add_remove": "had any one {unit} not been in the data",
    "replace_one": "had any one {unit} been another",
}


def _factor(epsilon: float) -> str:
    if epsilon >= 700:
        return f"e^{shown(epsilon)} times"
    times = round_up(math.exp(epsilon), 3)
    return f"{times:,.0f} times" if 1e3 <= times < 1e9 else f"{times:.3g} times"


def _tier(epsilon: float) -> str:
    return "strong" if epsilon <= 1 else "reasonable" if epsilon <= 10 else "weak"
