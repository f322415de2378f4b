"""What a clipper asks of a plan: a relation that it holds under, noise for its statistics, delta for a bound that may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.noise_split import gradient_multiplier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dppipe.clipping.base import Clipper
    from dppipe.planning.plan import NoiseRun
    from dppipe.privacy.budget import Budget


def refuse_clipping(clipping: Clipper, budget: Budget) -> None:
    """Refuse a clipper that this budget's proof doesn't cover."""
    why = clipping.refusal(budget.relation)
    if why is not None:
        raise PrivacyRefusal(f"clipping.kind: {why}.")
    reserved = clipping.failure_delta(uses=0)
    if reserved >= budget.delta:
        raise PrivacyRefusal(
            f"clipping.delta: expected less than budget.delta = {budget.delta:g}, of which it is a part, got {reserved:g}."
        )
    if budget.scope is not None:
        refuse_failure(clipping, why="a shared budget")


def refuse_failure(clipping: Clipper, *, why: str) -> None:
    """Refuse a bound that may fail where no delta can be set aside for it."""
    if clipping.failure_delta(uses=0):
        raise PrivacyRefusal(
            f"clipping.kind: expected a bound that can't fail with {why}, got {clipping.kind!r}. Take kind: flat."
        )


def clipping_numbers(clipping: Clipper, noise: Sequence[NoiseRun], *, expected_batch_size: float, uses: float) -> dict[str, Any]:
    """Give what the clipper adds to a plan; refuse a split of the noise that leaves nothing for the gradient.

    Args:
        clipping: The clipper.
        noise: The noise of every step.
        expected_batch_size: The base of its statistics' noise.
        uses: How often a record is clipped in the run, on average.
    """
    statistics_std = clipping.statistics_std(expected_batch_size)
    if statistics_std is not None:
        if clipping.averages:
            raise PrivacyRefusal(
                f"clipping.kind: expected statistics of single examples, got {clipping.kind!r}, which averages them first. "
                "One example could change a statistic twice as far as is accounted for. Leave one of the two out."
            )
        gradient_multiplier(max(run.noise_multiplier for run in noise), statistics_std=statistics_std)
    return {"statistics_std": statistics_std, "failure_delta": clipping.failure_delta(uses=uses)}
