"""What each record contributes to private scaling: a vector of bounded norm.

A centre and a spread are computed from the noisy sum of the vectors. Public limits scale the values
to -1 to 1, for each channel or feature. A statistic states in one place how large the norm of a
record's vector can be in one channel. Read next: `private_scaling.py`, which adds the vectors and
has the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

NORMAL_QUARTILES = 1.349
"""How far apart the quartiles of a normal variable are, over its deviation."""


@dataclass(frozen=True)
class Moments:
    """A record's mean values and mean squares.

    Guarantee: in a channel, mean m and mean square s obey m^2 <= s <= 1, so that
    m^2 + (s - 1/2)^2 <= 5/4.
    """

    name: ClassVar[str] = "means and deviations"
    width: ClassVar[int] = 2
    squared_norm: ClassVar[float] = 1.25
    least_std: ClassVar[float] = 0.05
    """The least deviation, as a share of half the range: noise could make it even negative."""

    # [n, first, positions] -> [n, 2 * first]
    def vectors(self, unit: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
        """Return each record's means, then its mean squares less 1/2."""
        import numpy

        return numpy.concatenate([unit.mean(axis=2), numpy.square(unit).mean(axis=2) - 0.5], axis=1)

    def centre_and_spread(
        self, noisy: NDArray[numpy.float64]
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """Return mean and deviation of each channel from the noisy average vector."""
        import numpy

        means, squares = numpy.split(noisy, 2)
        means = numpy.clip(means, -1.0, 1.0)
        variances = numpy.clip(squares + 0.5 - means**2, self.least_std**2, 1.0)
        return means, numpy.sqrt(variances)


@dataclass(frozen=True)
class Histograms:
    """The share of a record's values in each of `width` bins of equal size, for each channel.

    Guarantees:
    - In a channel the shares are at least 0 and sum to 1, so their squares sum to at most 1.
    - Replacing one record by another moves the shares by sqrt(2) at most: less than twice the norm,
      which is what the accountant counts.
    """

    width: int
    squared_norm: ClassVar[float] = 1.0

    @property
    def name(self) -> str:
        """What is released, for the statement."""
        return f"medians and quartiles (histograms of {self.width} bins)"

    # [n, first, positions] -> [n, first * width]
    def vectors(self, unit: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
        """Return each record's shares, channel after channel."""
        import numpy

        records, first, positions = unit.shape
        bins = ((unit + 1) / 2 * self.width).astype(numpy.int64)
        bins = numpy.minimum(bins, self.width - 1)  # the upper limit is in the last bin
        places = bins + self.width * numpy.arange(records * first).reshape(records, first, 1)
        counts = numpy.bincount(places.ravel(), minlength=records * first * self.width)
        shares: NDArray[numpy.float64] = counts / positions
        return shares.reshape(records, first * self.width)

    def centre_and_spread(
        self, noisy: NDArray[numpy.float64]
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """Return median and spread of each channel from the noisy average vector.

        The spread is the quartile range over that of a standard normal variable. Noise makes shares
        negative. Cutting those off would add a little to each empty bin, which moves the quartiles
        of skewed values most. So the shares are first shifted to their known sum, and then the
        cumulative shares are sorted, which never takes them further from the truth (Chernozhukov,
        Fernandez-Val and Galichon 2009).
        """
        import numpy

        shares = noisy.reshape(-1, self.width)
        shares = shares + (1 - shares.sum(axis=1, keepdims=True)) / self.width
        below = numpy.clip(numpy.sort(numpy.cumsum(shares, axis=1)[:, :-1], axis=1), 0.0, 1.0)
        below = numpy.pad(below, ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, 1.0)))
        edges = numpy.linspace(-1.0, 1.0, self.width + 1)
        quartiles = [numpy.interp((0.25, 0.5, 0.75), each, edges) for each in below]
        low, median, high = numpy.array(quartiles).T
        return median, numpy.maximum(high - low, 2 / self.width) / NORMAL_QUARTILES
