"""How large the noise on what is released before a learner will be, and where it drowns it.

All of it follows from options, public limits and the public number of units; no record is read.
Each figure is one standard deviation of the noise. Whether a statistic drowns depends on the
records too, which a plan doesn't know: it says which ones would.

1. A sum over n units gets noise of z times its sensitivity S, so an average has s = z S / n.
2. Means and deviations (limits scaled to -1 and 1): a mean is off by s, and so is a mean square. A
   variance v is told from noise where v >= 2 s, so deviations below sqrt(2 s) drown.
3. Histograms of b bins: a share is off by s, and the sum of half of them by s sqrt(b) / 2.
4. Principal components of d numbers: the noise is a symmetric matrix with deviation s / sqrt(2) off
   its diagonal. Its largest eigenvalue is about s sqrt(2 d), below which directions drown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dppipe.data.features.pca import PrivatePca
from dppipe.data.reading.bounded_statistics import Moments
from dppipe.data.reading.private_scaling import PrivateScaling

if TYPE_CHECKING:
    from dppipe.data.base import Data
    from dppipe.planning.plan import Plan

_MOST_DEVIATION = 0.25
"""Half the width of the limits times this: usual values have a deviation of about as much."""
_MOST_OF_A_QUARTER = 0.125
"""A quartile that is off by this share of the records is half-way to the median."""


@dataclass(frozen=True, kw_only=True)
class ReleaseNoise:
    """The noise on some statistics that have the same limits."""

    place: str
    """The option that asks for them."""
    statistics: str
    """Which statistics."""
    noise_std: float
    """One standard deviation of the noise on one of them, in its own units."""
    drowned_below: float | None
    """The size under which one can't be told from noise, in its own units."""
    drowns: bool
    """Whether usual values are below that."""
    text: str

    def to_data(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return asdict(self)


def release_noise(data: Data, plan: Plan) -> list[ReleaseNoise]:
    """Return the noise on each statistic that is released before the learner."""
    found: list[ReleaseNoise] = []
    if not plan.private or plan.records is None:
        return found
    for prelude, release in zip(data.preludes, plan.releases, strict=False):
        multiplier = float(release.facts["noise_multiplier"])
        if isinstance(prelude, PrivateScaling):
            channels = data.scaled_features or data.input_shape[0]
            found += _of_scaling(prelude, channels, multiplier / plan.records)
        elif isinstance(prelude, PrivatePca):
            width = math.prod(data.input_shape)
            found.append(_of_pca(prelude, width, multiplier / plan.records))
    return found


def _of_scaling(
    scaling: PrivateScaling, channels: int, multiplier: float
) -> Iterator[ReleaseNoise]:
    """Yield the noise for each pair of limits; the multiplier is that on an average."""
    noise = multiplier * scaling.sensitivity(channels)
    if not isinstance(scaling.statistic, Moments):
        yield _of_histograms(scaling, channels, noise)
        return
    counts: dict[tuple[float, float], int] = {}
    for limits in zip(*scaling.limits_of(channels), strict=True):
        counts[limits] = counts.get(limits, 0) + 1
    smallest = max(math.sqrt(2 * noise), scaling.statistic.least_std)
    for (lower, upper), count in counts.items():
        half = (upper - lower) / 2
        named = f"{count} feature{'' if count == 1 else 's'} from {lower:g} to {upper:g}"
        said = f"{named}: means are off by {noise * half:.3g}"
        if smallest >= 1:
            said += "; every deviation drowns in noise"
        else:
            said += f"; deviations below {smallest * half:.3g} drown in noise"
        yield ReleaseNoise(
            place=scaling.place,
            statistics=named,
            noise_std=noise * half,
            drowned_below=min(smallest, 1.0) * half,
            drowns=smallest > _MOST_DEVIATION,
            text=said,
        )


def _of_histograms(scaling: PrivateScaling, channels: int, noise: float) -> ReleaseNoise:
    width = scaling.statistic.width
    moved = min(noise * math.sqrt(width) / 2, 1.0)
    return ReleaseNoise(
        place=scaling.place,
        statistics=f"histograms of {channels} feature{'' if channels == 1 else 's'}",
        noise_std=noise,
        drowned_below=None,
        drowns=moved > _MOST_OF_A_QUARTER,
        text=f"{channels} histograms of {width} bins: shares are off by {noise:.3g}; medians and "
        f"quartiles by about {100 * moved:.2g} % of the records",
    )


def _of_pca(pca: PrivatePca, width: int, multiplier: float) -> ReleaseNoise:
    noise = multiplier * pca.sensitivity
    smallest = noise * math.sqrt(2 * width)
    # The mean squares of all directions add up to max_norm squared at most.
    most = pca.max_norm**2 / pca.components
    return ReleaseNoise(
        place=pca.place,
        statistics=f"{pca.components} directions of {width}",
        noise_std=noise,
        drowned_below=smallest,
        drowns=smallest > most,
        text=f"{pca.components} directions of {width}: those with a mean square below "
        f"{smallest:.3g} drown in noise; the last can have {most:.3g} at most",
    )
