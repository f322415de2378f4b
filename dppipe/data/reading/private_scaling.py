"""Means and deviations of private records, released with noise: scaling that is paid for like a step.

Each record gives one vector: for every channel or feature its mean value and its mean square, moved and scaled by public limits
so that the vector's norm is bounded. The sum over all training records is one Gaussian release; mean and deviation follow from
it. Where users are the unit, a user's vectors are averaged first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import model_validator

from dppipe.component import Field, Options
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

    least_std: ClassVar[float] = 0.05
    """No deviation is taken to be less than this share of half the range: noise could make it anything, even negative."""

    kind: Literal["private"] = "private"
    noise_multiplier: float = Field(gt=0, description="Noise on the statistics, over what one record can change in them.")
    lower: Numbers = Field((0.0,), min_length=1, description="No value counts for less: one public limit, or one a channel.")
    upper: Numbers = Field((1.0,), min_length=1, description="No value counts for more: one public limit, or one a channel.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        lows, highs = self.limits(max(len(self.lower), len(self.upper)))
        if any(low >= high for low, high in zip(lows, highs, strict=True)):
            raise ValueError("expected lower < upper in every channel. Correct the limits.")
        return self

    def limits(self, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Give the limits of each channel."""
        spread = [numbers * channels if len(numbers) == 1 else numbers for numbers in (self.lower, self.upper)]
        if any(len(numbers) != channels for numbers in spread):
            raise ValueError(f"expected 1 number or {channels}, one for each channel or feature, in lower and upper.")
        return spread[0], spread[1]

    def event(self) -> DpEvent:
        """Give the privacy event of the release."""
        import dp_accounting

        return dp_accounting.GaussianDpEvent(float(self.noise_multiplier))

    def sensitivity(self, channels: int) -> float:
        """Give the norm that no record's vector exceeds: in a channel, mean m and mean square s obey m^2 <= s <= 1, so that
        m^2 + (s - 1/2)^2 <= 5/4.
        """
        return math.sqrt(1.25 * channels)

    def apply(self, inputs: numpy.ndarray) -> None:
        """Do nothing yet: what to scale by is known only once it was released."""

    def vectors(self, inputs: numpy.ndarray) -> NDArray[numpy.float64]:  # [n, first, ...] -> [n, 2 * first]
        """Give each record's bounded vector: its means, then its mean squares less 1/2."""
        import numpy

        lows, highs = (numpy.array(each) for each in self.limits(inputs.shape[1]))
        flat = inputs.reshape(*inputs.shape[:2], -1).astype(numpy.float64)
        middle, half = ((highs + lows) / 2)[None, :, None], ((highs - lows) / 2)[None, :, None]
        unit = numpy.clip(numpy.nan_to_num((flat - middle) / half), -1.0, 1.0)
        return numpy.concatenate([unit.mean(axis=2), numpy.square(unit).mean(axis=2) - 0.5], axis=1)

    def total(self, inputs: numpy.ndarray, users: NDArray[numpy.int64] | None) -> NDArray[numpy.float64]:  # -> [2 * first]
        """Add up the records' vectors, or each user's average; not private before noise."""
        import numpy

        total = numpy.zeros(2 * inputs.shape[1])
        counts = None if users is None else numpy.bincount(users)
        for start in range(0, len(inputs), 4096):
            vectors = self.vectors(inputs[start : start + 4096])
            weights = 1.0 if users is None or counts is None else 1 / counts[users[start : start + 4096]][:, None]
            total += (vectors * weights).sum(axis=0)
        return total

    def constants(self, noisy: Any, *, count: int) -> Constants:  # [2 * first]
        """Make mean and deviation of a noisy total over so many records, or users."""
        import numpy

        means, squares = numpy.split(numpy.asarray(noisy, dtype=numpy.float64) / count, 2)
        means = numpy.clip(means, -1.0, 1.0)
        deviations = numpy.sqrt(numpy.clip(squares + 0.5 - means**2, self.least_std**2, 1.0))
        lows, highs = (numpy.array(each) for each in self.limits(len(means)))
        middle, half = (highs + lows) / 2, (highs - lows) / 2
        return Constants(mean=tuple(map(float, middle + half * means)), std=tuple(map(float, half * deviations)))


def padded(constants: Constants, features: int) -> Constants:
    """Give constants that leave the features after the first ones as they are."""
    more = features - len(constants.mean)
    return Constants(mean=constants.mean + (0.0,) * more, std=constants.std + (1.0,) * more)
