"""What is shown of privacy after each step: the same numbers in the run's own curves, in a user's
loggers and in a progress bar.

They come from the plan and from the gate's releases; no record has another part in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan


def spent_facts(plan: Plan, epsilon: float) -> dict[str, float]:
    """Return what is spent and left, under the names of the curves."""
    left = (plan.budget_epsilon or 0.0) - epsilon
    return {"privacy/epsilon": epsilon, "privacy/epsilon_remaining": left}


def step_facts(plan: Plan, step: int, shown: Mapping[str, float]) -> dict[str, float]:
    """Return what is spent and left after a step, and the step's rate, bound and noise."""
    facts = spent_facts(plan, plan.epsilon_after(step))
    for name, value in shown.items():
        facts[f"privacy/{name}"] = value
    facts["privacy/steps_remaining"] = float(plan.steps - step)
    return facts
