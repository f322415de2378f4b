"""What an audit would have found: the chance to reject a run whose noise is too small.

The scores of a correct step's canaries are independent, so they can be simulated for the audit's
own size, sampler and noise. This is an ESTIMATE: it says what the audit can see, not what is true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dppipe.audit.one_run.canaries.planting import scores_of
from dppipe.audit.one_run.curve_test import Inverse, rejects
from dppipe.audit.one_run.guessing import count_right

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.one_run.plan import AuditPlan
    from dppipe.planning.step_plan import StepPlan

TRIALS = 200
SEED = 20
"""A public seed: nothing secret is simulated."""
_POOL = 100_000
"""How many canaries are simulated in each world at most; trials draw from them."""
_MOST_NUMBERS = 16_000_000
"""How many random numbers are drawn at most: fewer canaries where a run has many steps."""
_LEAST_POOL = 1000


def chance_to_reject(
    audit: AuditPlan, plan: StepPlan, inverse: Inverse, *, noise_factor: float
) -> float:
    """Return how often the curve test rejects if the noise is the claimed one times a factor."""
    generator = np.random.default_rng(SEED)
    size = int(np.clip(_MOST_NUMBERS // (2 * plan.steps), _LEAST_POOL, _POOL))
    present = np.arange(2 * size) < size
    pool = simulated_scores(plan, present, noise_factor=noise_factor, generator=generator)
    known: dict[int, bool] = {}
    found = 0
    for _ in range(TRIALS):
        coins = generator.random(audit.number) < 0.5
        drawn = generator.integers(size, size=audit.number) + np.where(coins, 0, size)
        guesses = count_right(audit, pool[drawn], coins)
        if guesses.right not in known:
            known[guesses.right] = rejects(guesses, inverse, level=audit.level)
        found += known[guesses.right]
    return found / TRIALS


def simulated_scores(
    plan: StepPlan,
    present: NDArray[np.bool_],  # [m]
    *,
    noise_factor: float,
    generator: np.random.Generator,
) -> NDArray[np.float64]:  # -> [m]
    """Return the scores of reserved canaries with these coins, for the steps of a plan."""
    scores = scores_of(plan, len(present))
    absent = -1.0 if scores.replaces else 0.0
    moved = np.where(present, 1.0, absent)
    places = np.zeros(len(present), dtype=np.int64)
    for step in range(1, plan.steps + 1):
        rate = plan.batch(step).sample_rate
        noise = plan.gradient_multiplier(plan.noise_multiplier(step))
        if scores.epoch:
            place = plan.place_in_epoch(step)
            if place == 0:
                places = generator.integers(scores.epoch, size=len(present))
            drawn = places == place
        else:
            drawn = generator.random(len(present)) < rate
        spread = noise * noise_factor
        if scores.laplace:
            noises = generator.laplace(scale=spread, size=len(present))
        else:
            noises = generator.normal(scale=spread, size=len(present))
        scores.add(np.where(drawn, moved, 0.0) + noises, shift=1.0, noise=noise, rate=rate)
    scores.close_epoch()
    return scores.total
