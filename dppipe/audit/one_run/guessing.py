"""From scores to guesses: the highest are guessed in, the lowest out, nothing of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dppipe.audit.one_run.guesses import Guesses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.one_run.plan import AuditPlan


def count_right(
    plan: AuditPlan,
    scores: NDArray[np.float64],  # [m]
    present: NDArray[np.bool_],  # [m]
) -> Guesses:
    """Guess by the scores as the plan says, and count how many guesses the coins confirm.

    Equal scores are ordered by the canaries' numbers, which say nothing about fair coins. A score
    that isn't a number counts as the lowest. Both rules are fixed, so the bounds hold.
    """
    ordered = np.argsort(np.where(np.isnan(scores), -np.inf, scores), kind="stable")
    outs = ordered[: plan.guessed_out]
    ins = ordered[len(ordered) - plan.guessed_in :]
    right = int(present[ins].sum()) + int((~present[outs]).sum())
    return Guesses(plan.number, plan.guesses, right)
