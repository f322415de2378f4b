"""Statistics of private records, released with noise: scaling that is paid for like a step.

Each record contributes one vector of values, shifted and scaled by public limits so that its norm
is bounded (`bounded_statistics.py`). The sum over all training records is one Gaussian release; the
centre and spread of every channel or feature are computed from it. Where users are the unit, a
user's vectors are averaged first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, model_validator

from dppipe.component import Field, Options
from dppipe.data.reading.bounded_statistics import Histograms, Moments
from dppipe.data.reading.limit_groups import LimitGroup, groups_of, limits_of_groups
from dppipe.data.reading.scaling import Constants, Numbers
from dppipe.errors import Problem, SpecError
from dppipe.privacy.release import Release

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from dppipe.privacy.budget import Budget


class PrivateScaling(Options):
    """What `normalize: {kind: private}` takes: noisy statistics for `(input - mean) / std`.

    Guarantees:
    - One record, or user, moves the released sum by at most `sensitivity`, whatever it holds:
      values are clamped to the limits first, and NaN counts as the middle.
    - The event is that of Gaussian noise with this multiplier.
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
    limits: Annotated[
        tuple[LimitGroup, ...] | None,
        BeforeValidator(groups_of, json_schema_input_type=str | list[LimitGroup] | None),
    ] = Field(
        None,
        description="Public limits of groups of features, or a CSV file with the columns feature, "
        "lower and upper; all others have `lower` and `upper`.",
    )
    bins: int | None = Field(
        None,
        ge=4,
        le=4096,
        description="Release histograms of so many bins, and scale by median and quartiles: "
        "for skewed values.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        channels = max(len(self.lower), len(self.upper))
        lows = _for_each(self.lower, channels)
        highs = _for_each(self.upper, channels)
        if len(lows) != len(highs):
            raise ValueError(
                f"expected as many numbers in lower as in upper, or one, got {len(lows)} and "
                f"{len(highs)}."
            )
        if any(low >= high for low, high in zip(lows, highs, strict=True)):
            raise ValueError("expected lower < upper in every channel. Correct the limits.")
        return self

    def limits_of(self, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the lower and the upper limit of each channel."""
        lows = _for_each(self.lower, channels)
        highs = _for_each(self.upper, channels)
        for name, numbers in (("lower", lows), ("upper", highs)):
            if len(numbers) != channels:
                message = (
                    f"expected 1 number or {channels}, one for each channel or feature, got "
                    f"{len(numbers)}."
                )
                raise SpecError([Problem(("data", "normalize", name), message)])
        return limits_of_groups(self.limits or (), lows, highs)

    def of_columns(self, names: Sequence[str]) -> PrivateScaling:
        """Return the same scaling with columns of a table by their numbers."""
        if not self.limits:
            return self
        groups = tuple(group.by_number(names) for group in self.limits)
        return self.model_copy(update={"limits": groups})

    @property
    def statistic(self) -> Moments | Histograms:
        """What is released."""
        return Moments() if self.bins is None else Histograms(self.bins)

    @property
    def place(self) -> str:
        """The option that asks for the release."""
        return "data.normalize"

    @property
    def needs_count(self) -> bool:
        """Whether the number of records has to be public: sums are divided by it."""
        return True

    @property
    def instead(self) -> str:
        """What can be done where this can't be released."""
        return "Give constants"

    def release(self, budget: Budget | None = None) -> Release:
        """Return the release of the statistics, with its privacy event."""
        import dp_accounting

        multiplier = float(self.noise_multiplier)
        return Release(
            what="statistics",
            event=dp_accounting.GaussianDpEvent(multiplier),
            facts={"statistics": self.statistic.name, "noise_multiplier": multiplier},
            place=self.place,
        )

    def sensitivity(self, channels: int) -> float:
        """Return the norm that no record's vector exceeds."""
        return math.sqrt(self.statistic.squared_norm * channels)

    def apply(self, inputs: numpy.ndarray) -> None:
        """Do nothing: the constants are known only after the release."""

    # [n, first, ...] -> [n, width * first]
    def vectors(self, inputs: numpy.ndarray) -> NDArray[numpy.float64]:
        """Return each record's bounded vector."""
        import numpy

        middle, half = self._middle_and_half(inputs.shape[1])
        flat = inputs.reshape(*inputs.shape[:2], -1).astype(numpy.float64)
        scaled = (flat - middle[None, :, None]) / half[None, :, None]
        unit = numpy.clip(numpy.nan_to_num(scaled), -1.0, 1.0)
        return self.statistic.vectors(unit)

    def total(
        self, inputs: numpy.ndarray, users: NDArray[numpy.int64] | None
    ) -> NDArray[numpy.float64]:  # -> [width * first]
        """Return the sum of the records' vectors, or of each user's average vector.

        The sum isn't private before noise is added.
        """
        import numpy

        total = numpy.zeros(self.statistic.width * inputs.shape[1])
        counts = None if users is None else numpy.bincount(users)
        chunk = max(1, min(4096, 2**22 // len(total)))  # wide histograms: at most 32 MB at once
        for start in range(0, len(inputs), chunk):
            vectors = self.vectors(inputs[start : start + chunk])
            if users is not None and counts is not None:
                vectors = vectors * (1 / counts[users[start : start + chunk]][:, None])
            total += vectors.sum(axis=0)
        return total

    def constants(self, noisy: Any, *, count: int) -> Constants:  # [width * first]
        """Return the constants of a noisy total over `count` records, or users."""
        import numpy

        average = numpy.asarray(noisy, dtype=numpy.float64) / count
        centre, spread = self.statistic.centre_and_spread(average)
        middle, half = self._middle_and_half(len(centre))
        return Constants(
            mean=tuple(map(float, middle + half * centre)), std=tuple(map(float, half * spread))
        )

    def _middle_and_half(
        self, channels: int
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:  # [channels] each
        """Return the middle of each channel's limits, and half the distance between them."""
        import numpy

        lower, upper = self.limits_of(channels)
        lows = numpy.array(lower)
        highs = numpy.array(upper)
        return (highs + lows) / 2, (highs - lows) / 2


def _for_each(numbers: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Return a number for each channel where one stands for all; others stay as they are."""
    return numbers * channels if len(numbers) == 1 else numbers


def padded(constants: Constants, features: int) -> Constants:
    """Return constants that leave the features after the first ones as they are."""
    more = features - len(constants.mean)
    return Constants(mean=constants.mean + (0.0,) * more, std=constants.std + (1.0,) * more)
