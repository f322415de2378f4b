"""A value together with how far one unit can move it: what a learner hands to the gate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.noise_split import main_multiplier

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Beside:
    """A second value of the same records, with a noise multiplier of its own.

    An adaptive clipper's counts are one. Both releases together are charged as one event.
    """

    value: Tensor
    sensitivity: float
    noise_multiplier: float


@dataclass(frozen=True)
class Bounded:
    """A value that isn't private yet, with its sensitivity.

    Guarantee: whoever makes one promises that one unit's presence moves `value` by at most
    `sensitivity` (in the Euclidean norm; in the sum of absolute values under Laplace noise). The
    gate scales the noise from this number, so no second place can state another.
    """

    value: Tensor
    """`[n]`, float32 or wider; noise is added in place."""
    sensitivity: float
    over: float = 1.0
    """A public constant by which the noisy value is divided."""
    beside: Beside | None = None
    buffer: Tensor | None = None
    """One flat tensor of which `value` and `beside.value` are parts, where there is one."""
    per_rank: bool = True
    """Whether each process has a part of the sum; if not, the first one computes all of it."""
    monotone: bool = False
    """Of scores: whether one unit's presence moves no two of them in opposite directions."""
    followed: Tensor | None = None
    """The part of `value` that the noise of later steps may follow; None where that is all."""
    diagnose: Callable[[float], None] | None = None
    """Is shown the noise's standard deviation before noise is added, for `nonprivate/` alone."""

    def __post_init__(self) -> None:
        for name, number in (("sensitivity", self.sensitivity), ("divisor", self.over)):
            if not 0 < number < math.inf:
                raise PrivacyRefusal(
                    f"release: expected a finite {name} > 0, got {number!r}. Nothing was released."
                )

    def noise_std(self, noise_multiplier: float) -> float:
        """Return the standard deviation of the noise on `value`.

        A value beside it takes a part of the multiplier that the release is charged with.
        """
        if self.beside is None:
            return noise_multiplier * self.sensitivity
        own = main_multiplier(noise_multiplier, beside=self.beside.noise_multiplier)
        return own * self.sensitivity

    @property
    def seen(self) -> Tensor:
        """What a schedule of the noise is shown, once it is out."""
        return self.value if self.followed is None else self.followed

    @property
    def whole(self) -> Tensor:
        """What processes add up and share."""
        return self.value if self.buffer is None else self.buffer
