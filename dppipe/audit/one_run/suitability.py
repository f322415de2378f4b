"""Which runs can be audited from inside: others are refused by name, before anything is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.records.canary_draws import sampler_with_canaries
from dppipe.planning.step_plan import StepPlan

if TYPE_CHECKING:
    from dppipe.audit.one_run.plan import Kind
    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec


def units_of_plan(plan: StepPlan) -> int:
    """Return the number of units; where that is secret, the one that rate and size imply."""
    if plan.records is not None:
        return plan.records
    return round(plan.expected_batch_size / plan.sample_rate)


def require_auditable(spec: Spec, plan: Plan, *, kind: Kind, number: int) -> StepPlan:
    """Return the plan of a run that can be audited from inside; refuse another one."""
    if not isinstance(plan, StepPlan):
        raise UsageError(
            f"learner: expected dp_sgd in an audit of one run, got {plan.learner!r}. `dppipe audit "
            "SPEC` audits its releases one by one."
        )
    if not plan.private or not plan.certified:
        raise UsageError(
            "budget: expected a certified claim to test, got none. Set a budget, and an accountant "
            "that proves its epsilon."
        )
    if spec.reproducible:
        raise PrivacyRefusal(
            "reproducible: expected false in an audit of one run, got true. Coins, draws and noise "
            "would depend on one public seed, and the bounds hold for secret ones."
        )
    processes = spec.performance.devices * spec.performance.num_nodes
    if processes > 1 or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "performance: expected one process in an audit of one run, got several. Set devices "
            "and num_nodes to 1: the noise is added in one process all the same."
        )
    if plan.block > 1:
        raise UsageError(
            f"noise: expected independent noise in an audit of one run, got {spec.noise.kind!r}, "
            "whose steps are correlated. No score is known for it here."
        )
    if not number >= 2:
        raise UsageError(f"--number: expected at least 2 canaries, got {number}.")
    sampler_with_canaries(spec.sampler, units=units_of_plan(plan), canaries=number)
    if kind == "inputs":
        _require_rows(spec, plan)
    return plan


def _require_rows(spec: Spec, plan: StepPlan) -> None:
    """Refuse input canaries where a row isn't a unit's whole contribution."""
    if plan.relation == "replace_one":
        raise UsageError(
            "budget.relation: expected zero_out or add_remove with input canaries, got "
            "replace_one. Take --canaries reserved."
        )
    if plan.averages:
        raise UsageError(
            f"clipping: expected a clipper of single examples with input canaries, got "
            f"{spec.clipping.kind!r}, which averages them. Take --canaries reserved."
        )
    if spec.data.kind == "class_path":
        raise UsageError(
            "data: expected a kind of data that dppipe can make up, got a class of your own. Take "
            "--canaries reserved."
        )
