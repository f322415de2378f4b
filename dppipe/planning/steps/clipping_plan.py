"""What a clipper adds to a plan: noise for its statistics, and delta for a bound that may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.clipper_abilities import Averages, failure_delta, statistics_std
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.noise_split import gradient_multiplier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dppipe.clipping.base import Clipper
    from dppipe.planning.step_plan import NoiseRun


def clipping_numbers(
    clipping: Clipper, noise: Sequence[NoiseRun], *, expected_batch_size: float, uses: float
) -> dict[str, Any]:
    """Return a plan's numbers about its clipper.

    A split of the noise that leaves nothing for the gradient is refused.

    Args:
        clipping: The clipper.
        noise: The noise of every step.
        expected_batch_size: What the noise of its statistics is relative to.
        uses: How often a record is clipped in the run, on average.
    """
    std = statistics_std(clipping, expected_batch_size=expected_batch_size)
    if std is not None:
        if isinstance(clipping, Averages):
            raise PrivacyRefusal(
                f"clipping.kind: expected statistics of single examples, got {clipping.kind!r}, "
                "which averages them first. One example could change a statistic twice as far as "
                "is accounted for. Leave one of the two out."
            )
        largest = max(run.noise_multiplier for run in noise)
        gradient_multiplier(largest, statistics_std=std)
    return {"statistics_std": std, "failure_delta": failure_delta(clipping, uses=uses)}
