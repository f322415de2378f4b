"""The methods of a membership attack: how many shadows each needs, and its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from dppipe.audit.attacks.membership.lira import lira_scores
from dppipe.audit.attacks.membership.lira_offline import lira_offline_scores
from dppipe.audit.attacks.membership.loss import loss_scores
from dppipe.audit.attacks.membership.rmia import (
    best_a,
    likelihood_ratios,
    mean_outside,
    rmia_scores,
)
from dppipe.audit.attacks.membership.shadow import shadow_scores
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.attacks.membership.answers import Answers
    from dppipe.audit.attacks.membership.shadows import Shadows
    from dppipe.audit.attacks.options import AttackOptions

    Floats = NDArray[numpy.float64]

DEFAULT_SHADOWS = {"loss": 0, "shadow": 4, "lira": 16, "lira-offline": 16, "rmia": 4}


def shadows_of(method: str, options: AttackOptions) -> int:
    """Return how many shadows a method trains of each of the two models."""
    if options.shadows is not None and not DEFAULT_SHADOWS[method]:
        raise UsageError(
            f"attack: --shadows: expected none, as {method} needs no shadow models, got "
            f"{options.shadows}. Leave it out."
        )
    return DEFAULT_SHADOWS[method] if options.shadows is None else options.shadows


def scores_by(
    method: str, answers: Answers, shadows: Shadows | None, *, are_members: NDArray[numpy.bool_]
) -> tuple[Floats, dict[str, float]]:
    """Return each record's score, larger for likelier members, and what the method has chosen.

    Only RMIA looks at `are_members`: the non-members are its population.
    """
    if shadows is None:
        return loss_scores(answers.losses), {}
    if method == "shadow":
        return shadow_scores(answers, shadows.answers, shadows.inside), {}
    if method == "lira":
        return lira_scores(answers.confidences, shadows.confidences(), shadows.inside), {}
    if method == "lira-offline":
        found = lira_offline_scores(answers.confidences, shadows.confidences(), shadows.inside)
        return found, {}
    others = shadows.probabilities()
    a = best_a(others, shadows.inside)
    outside = mean_outside(others, shadows.inside)
    ratios = likelihood_ratios(answers.probabilities, outside, a=a)
    return rmia_scores(ratios, ratios[~are_members]), {"a": a}
