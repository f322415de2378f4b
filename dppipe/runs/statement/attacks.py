"""What any attacker can reach, in words for whoever answers for the data.

The numbers are the plan's (`privacy/tradeoff/attack_limits.py`). A unit "took part" if it was among
those that the claim is about; under replace_one the question is which of two units did.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dppipe.privacy.printing import shown_delta, shown_share
from dppipe.runs.statement.claims import one_of, units_of

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.privacy.tradeoff.attack_limits import AttackLimits
    from dppipe.runs.statement.statement import Statement

HEADING = ("false alarms", "recognised at most", "by guessing")
"""The columns of the table of recognised units."""

_ANY = (
    "These limits hold as far as the claim does, for any attack on what was released, whatever the "
    "attacker knows of the other {units}."
)
_WHOLE_CURVE = "They follow from the whole certified curve, not from epsilon alone."
_ONE_POINT = (
    "They follow from epsilon and delta alone: no more is known of a run whose noise follows "
    "released values."
)
_QUESTION = (
    "An attacker tries to find out whether a given {unit} took part. A false alarm is a {unit} "
    "that did not take part and is taken for one that did."
)
_WHICH_OF_TWO = (
    "An attacker tries to find out which of two given {units} took part. A false alarm is the "
    "second one taken for the first."
)
_FEWER = "The fewer false alarms it accepts, the fewer {units} it recognises:"
_AS_LIKELY = "If the {unit} took part with a probability of 50 %"
_EITHER = "If either {unit} took part with a probability of 50 %"
_ANSWER = "the attacker's answer is right in at most {right} of cases. A coin is right in 50 %."
_ADVANTAGE = (
    "The share that it recognises exceeds the share of its false alarms by at most {advantage:g} "
    "(the advantage)."
)
_HIT = (
    "A guess at a {unit} (a diagnosis, a whole row) that would be right with a probability of "
    "{prior} {without} is right with at most {hit}."
)
_OTHER_HIT = "One that would be right with {prior} is right with at most {hit}."
_WITHOUT = {
    "zero_out": "had the {unit} not taken part",
    "add_remove": "had the {unit} not taken part",
    "replace_one": "had another {unit} taken part",
}
_OTHERS = "What the other {units} tell about this one is part of that probability."
_MU = (
    "At every delta from {delta} up the run protects at least as well as one release with "
    "Gaussian noise of 1/mu times what a {unit} can change, where mu = {mu:g} (Gaussian "
    "differential privacy)."
)
_SEVERAL = "The limits are for one record: a person with several records has less protection."


def stated_limits(statement: Statement) -> AttackLimits | None:
    """Return what any attacker can reach; None where nothing is claimed."""
    return statement.plan.attack_limits if statement.protects else None


def shown_limits(plan: Plan) -> AttackLimits | None:
    """Return the limits of a plan that may be shown before it is run: also those of an estimate."""
    if plan.reproducible or plan.epsilon is None or math.isinf(plan.epsilon):
        return None
    return plan.attack_limits


def attack_introduction(plan: Plan) -> Iterator[str]:
    """Yield what the limits hold for, and what the table of recognised units says."""
    known = _ONE_POINT if plan.schedule == "filter" else _WHOLE_CURVE
    question = _WHICH_OF_TWO if plan.relation == "replace_one" else _QUESTION
    yield _named(f"{_ANY} {known}", plan)
    yield _named(f"{question} {_FEWER}", plan)


def recognition_rows(limits: AttackLimits) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table of recognised units, under `HEADING`."""
    for limit in limits.membership:
        guessed = shown_share(limit.false_positive_rate)
        yield guessed, shown_share(limit.true_positive_rate), guessed


def attack_sentences(plan: Plan, limits: AttackLimits) -> Iterator[str]:
    """Yield the other limits, one bullet each."""
    yield _answers(plan, limits)
    yield _hits(plan, limits)
    yield from gaussian_sentences(plan, limits)
    if plan.unit != "user":
        yield _SEVERAL


def gaussian_sentences(plan: Plan, limits: AttackLimits) -> Iterator[str]:
    """Yield which Gaussian mechanism the run compares with, where there is one."""
    if limits.mu is not None:
        delta = shown_delta(plan.delta or 0.0)
        yield _MU.format(delta=delta, unit=one_of(plan.unit), mu=limits.mu)


def _answers(plan: Plan, limits: AttackLimits) -> str:
    """Say how often a yes or no is right."""
    likely = _EITHER if plan.relation == "replace_one" else _AS_LIKELY
    answer = _ANSWER.format(right=shown_share((1 + limits.advantage) / 2))
    advantage = _ADVANTAGE.format(advantage=limits.advantage)
    return f"{_named(likely, plan)}, {answer} {advantage}"


def _hits(plan: Plan, limits: AttackLimits) -> str:
    """Say how often a guess at a unit is right."""
    without = _named(_WITHOUT[plan.relation or "zero_out"], plan)
    said: list[str] = []
    for hit in limits.reconstruction:
        text = _OTHER_HIT if said else _HIT
        numbers = {"prior": shown_share(hit.prior), "hit": shown_share(hit.probability)}
        said.append(text.format(unit=one_of(plan.unit), without=without, **numbers))
    return " ".join([*said, _named(_OTHERS, plan)])


def _named(text: str, plan: Plan) -> str:
    return text.format(unit=one_of(plan.unit), units=units_of(plan.unit))
