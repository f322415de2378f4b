"""Statistics of private records, released with noise: scaling that is paid for like a step.

Each record gives one vector, of values moved and scaled by public limits so that its norm is bounded: `bounded_statistics.py`.
The sum over all training records is one Gaussian release; a centre and a spread of every channel or feature follow from it.
Where users are the unit, a user's vectors are averaged first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from dppipe.component import Field, Options
from dppipe.data.reading.bounded_statistics import Histograms, Moments
from dppipe.data.reading.scaling import Constants, Numbers

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent
    from numpy.typing import NDArray


class PrivateScaling(Options):
    """What `normalize: {kind: private}` takes: an input becomes `(input - mean) / std`, with noisy statistics of the records.

    Guarantee: one record, or user, moves the released sum by at most `sensitivity`, whatever it holds: values are held to the
    limits first, and what is not a number counts as the middle. The event is that of Gaussian noise with this multiplier.
    """

    kind: Literal["private"] = "private"
    noise_multiplier: float = Field(
        gt=0, description="Noise on the statistics, over what one record can change in them."
    )
    lower: Numbers = Field(
        (0.0,),
        min_length=1,
        description="No value counts for less: one public limit, or one a channel.",
    )
    upper: Numbers = Field(
        (1.0,),
        min_length=1,
        description="No value counts for more: one public limit, or one a channel.",
    )
    bins: int | None = Field(
        None,
        ge=4,
        le=4096,
        description="Release histograms of so many bins, and scale by median and quartiles: for skewed values.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        lows, highs = self.limits(max(len(self.lower), len(self.upper)))
        if any(low >= high for low, high in zip(lows, highs, strict=True)):
            raise ValueError("expected lower < upper in every channel. Correct the limits.")
        return self

    def limits(self, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Give the limits of each channel."""
        spread = [
            numbers * channels if len(numbers) == 1 else numbers
            for numbers in (self.lower, self.upper)
        ]
        if any(len(numbers) != channels for numbers in spread):
            raise ValueError(
                f"expected 1 number or {channels}, one for each channel or feature, in lower and upper."
            )
        return spread[0], spread[1]

    @property
    def statistic(self) -> Moments | Histograms:
        """What is released."""
        return Moments() if self.bins is None else Histograms(self.bins)

    def event(self) -> DpEvent:
        """Give the privacy event of the release."""
        import dp_accounting

        return dp_accounting.GaussianDpEvent(float(self.noise_multiplier))

    def sensitivity(self, channels: int) -> float:
        """Give the norm that no record's vector exceeds."""
        return math.sqrt(self.statistic.squared_norm * channels)

    def apply(self, inputs: numpy.ndarray) -> None:
        """Do nothing yet: what to scale by is known only once it was released."""

    def vectors(
        self, inputs: numpy.ndarray
    ) -> NDArray[numpy.float64]:  # [n, first, ...] -> [n, width * first]
        """Give each record's bounded vector."""
        import numpy

        lows, highs = (numpy.array(each) for each in self.limits(inputs.shape[1]))
        flat = inputs.reshape(*inputs.shape[:2], -1).astype(numpy.float64)
        middle, half = ((highs + lows) / 2)[None, :, None], ((highs - lows) / 2)[None, :, None]
        unit = numpy.clip(numpy.nan_to_num((flat - middle) / half), -1.0, 1.0)
        return self.statistic.vectors(unit)

    def total(
        self, inputs: numpy.ndarray, users: NDArray[numpy.int64] | None
    ) -> NDArray[numpy.float64]:  # -> [width * first]
        """Add up the records' vectors, or each user's average; not private before noise."""
        import numpy

        total = numpy.zeros(self.statistic.width * inputs.shape[1])
        piece = max(1, min(4096, 2**22 // len(total)))  # wide histograms: at most 32 MB at once
        counts = None if users is None else numpy.bincount(users)
        for start in range(0, len(inputs), piece):
            vectors = self.vectors(inputs[start : start + piece])
            weights = (
                1.0
                if users is None or counts is None
                else 1 / counts[users[start : start + piece]][:, None]
            )
            total += (vectors * weights).sum(axis=0)
        return total

    def constants(self, noisy: Any, *, count: int) -> Constants:  # [width * first]
        """Make centre and spread of a noisy total over so many records, or users."""
        import numpy

        centre, spread = self.statistic.centre_and_spread(
            numpy.asarray(noisy, dtype=numpy.float64) / count
        )
        lows, highs = (numpy.array(each) for each in self.limits(len(centre)))
        middle, half = (highs + lows) / 2, (highs - lows) / 2
        return Constants(
            mean=tuple(map(float, middle + half * centre)), std=tuple(map(float, half * spread))
        )


def padded(constants: Constants, features: int) -> Constants:
    """Give constants that leave the features after the first ones as they are."""
    more = features - len(constants.mean)
    return Constants(mean=constants.mean + (0.0,) * more, std=constants.std + (1.0,) * more)
