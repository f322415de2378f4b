"""How an epsilon compares with that of papers, most of which mean add_remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.support import verdict
from dppipe.runs.statement.claims import units_of

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.runs.statement.statement import Statement

_PAPERS = (
    "Abadi et al. (2016) measure DP-SGD under add_remove: one record more or less in the data."
)
_PAPERS_ON_RELEASES = (
    "Most papers measure epsilon under add_remove: one record more or less in the data."
)
_SAME = (
    "With the same sampler, sample rate, noise multiplier and number of steps, epsilon is the "
    "same number under add_remove and zero_out. They differ in what is public: zero_out takes the "
    "number of {units} as public, add_remove doesn't."
)
_NO_PROOF = "For this sampler, clipper and accountant dppipe has no proof under add_remove."
_SAME_RELATION = "That is the relation here."
_REPLACED = (
    "Under replace_one one {unit} can move a step's sum by twice the bound. Epsilon here counts "
    "that."
)
_REPLACED_IN_RELEASES = (
    "Under replace_one one {unit} can move a release by twice what its presence can. Epsilon here "
    "counts that."
)
_NOT_COMPARED = "Here the number of {units} is public, and no claim is made under add_remove."
_REPLACED_ALONE = "Under add_remove and zero_out it can move the sum by the bound alone."


def comparison(statement: Statement) -> str | None:
    """Return how the claim compares with one under add_remove; None where nothing is claimed."""
    if not statement.protects:
        return None
    plan = statement.plan
    said = [_PAPERS if isinstance(plan, StepPlan) else _PAPERS_ON_RELEASES]
    if plan.relation == "add_remove":
        said.append(_SAME_RELATION)
    elif plan.relation == "zero_out":
        said.append(_SAME if _also_add_remove(plan) else _no_proof(plan))
    elif plan.relation == "replace_one":
        said += _replaced(plan)
    return " ".join(said).format(unit=plan.unit, units=units_of(plan.unit))


def _replaced(plan: Plan) -> list[str]:
    if not isinstance(plan, StepPlan):
        return [_REPLACED_IN_RELEASES]
    return [_REPLACED] if plan.averages else [_REPLACED, _REPLACED_ALONE]


def _no_proof(plan: Plan) -> str:
    return _NO_PROOF if isinstance(plan, StepPlan) else _NOT_COMPARED


def _also_add_remove(plan: Plan) -> bool:
    """Return whether the run's accountant proves the same under add_remove.

    A clipped sum moves by at most the bound under both relations, and each record's or user's coin
    is its own, so one pair of distributions decides both. Clipped averages need a public number of
    records. Releases without a sampler may divide by that number, so nothing is said of them.
    """
    if not isinstance(plan, StepPlan):
        return False
    found = verdict(
        sampler=plan.sampler,
        relation="add_remove",
        accountant=plan.accountant or "",
        adaptive=plan.schedule == "filter",
        mechanism=plan.mechanism,
    )
    return found.status == "certified" and not plan.averages
