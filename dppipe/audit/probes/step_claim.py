"""What is claimed of one release of a private step: its sensitivity, its noise, and its curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.events.mechanisms import laplace
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.blow_up import BlowUp, blow_up_of

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.privacy.accountants.base import PrivacyCurve
    from dppipe.privacy.budget import Relation


@dataclass(frozen=True)
class StepClaim:
    """The numbers of one release, as the step states them; a probe measures each of them."""

    multiplier: float
    """The noise multiplier that is charged."""
    unit: float
    """The standard deviation (or the scale, of Laplace noise) of a multiplier of 1."""
    std: float
    """The noise on the sum of gradients; more than multiplier x unit where counts take a share."""
    counts: int
    """How many counts an adaptive clipper releases beside the gradient."""
    count_std: float
    sizes: Mapping[str, int]
    """The number of values of each parameter, in the order of the release."""
    groups: Mapping[str, int]
    """The clipping group of each parameter."""
    bounds: tuple[float, ...]
    """The bound of each group."""
    relation: Relation
    mechanism: str
    order: int
    averages: bool
    """Whether averages of examples are clipped: one record can turn one around."""

    @property
    def width(self) -> int:
        """The number of gradient values."""
        return sum(self.sizes.values())

    @property
    def sensitivity(self) -> float:
        """How far one unit may move the sum: twice the unit where it is replaced by another."""
        return self.unit * self._moves

    @property
    def shift(self) -> float:
        """The sensitivity in units of the noise that is charged: mu of Gaussian noise."""
        return self._moves / self.multiplier

    @property
    def _moves(self) -> int:
        return 2 if self.relation == "replace_one" else 1

    def group_bound(self, group: int) -> float:
        """Return how far one unit may move a group's sum."""
        turned = self.relation == "replace_one" or self.averages
        return self.bounds[group] * (2 if turned else 1)

    def pieces(self) -> dict[str, slice]:
        """Return the place of each parameter in a release."""
        found: dict[str, slice] = {}
        start = 0
        for name, size in self.sizes.items():
            found[name] = slice(start, start + size)
            start += size
        return found

    def scaled(self, release: Tensor) -> Tensor:  # [d + K] -> [d + K]
        """Return sums in units of their own noise."""
        if not self.counts:
            return release / self.std
        gradient = release[: self.width] / self.std
        return torch.cat([gradient, release[self.width :] / self.count_std])

    def curve(self) -> PrivacyCurve:
        """Return the privacy curve of one release of all records, without sampling."""
        if self.mechanism == "gaussian":
            return GaussianCurve(mu=self.shift)
        composed = Pld().compose([(laplace(self.multiplier), 1)], relation=self.relation)
        return composed.curve

    def blow_up(self) -> BlowUp:
        """Return how probable an event of one world may be in the other.

        Guarantee: for Gaussian noise B(x) = Phi(Phi^-1(x) + mu) (Dong, Roth and Su 2022).
        """
        return blow_up_of(self.curve())

    def size_of(self, values: Tensor) -> float:
        """Return a sum that has a chi-square distribution if the noise is as claimed.

        With n values in units of their noise it has n degrees of freedom, or 2 n for Laplace noise.
        """
        if self.mechanism == "laplace":
            return 2 * float(values.abs().sum())
        return float(values.square().sum())

    def degrees(self, values: int) -> int:
        """Return the degrees of freedom of `size_of` so many values."""
        return 2 * values if self.mechanism == "laplace" else values

    def noise_ratio(self, size: float, values: int) -> float:
        """Return the noise that was measured over the one claimed."""
        mean = size / self.degrees(values)
        return mean if self.mechanism == "laplace" else math.sqrt(mean)
