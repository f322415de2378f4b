"""AdaClip: each coordinate is shifted and scaled before clipping, by what earlier releases say of its mean and spread."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dppipe.clipping.base import Clipper, State
from dppipe.component import Field

if TYPE_CHECKING:
    from torch import Tensor

    Coordinates = Mapping[str, Tensor]


@dataclass(frozen=True)
class Rescaled:
    """AdaClip in one state: gradients g become (g - mean) / scale."""

    mean: Coordinates
    scale: Coordinates

    def transform(self, gradient: Coordinates) -> dict[str, Tensor]:
        """Give one example's gradient in the coordinates in which it is clipped."""
        return {
            name: (g - self.mean[name].to(g)) / self.scale[name].to(g)
            for name, g in gradient.items()
        }

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return (bounds / norms).clamp(max=1)


class AdaClip(Clipper, kind="adaclip"):
    """Clips in coordinates of equal importance, so that noise is small where gradients vary little (Pichapati et al. 2019).

    With s the standard deviation of a coordinate over examples, scale = sqrt(s * sum of all s) / max_grad_norm has the least
    noise for a given share of clipped examples. The first step is flat clipping.

    Guarantee: means and deviations only follow released gradients; the sensitivity in the new coordinates is the bound, for a
    record that contributes or not. (A gradient of zero is no zero there, so it isn't what `zero_out` stands for.)
    """

    needs: ClassVar[Literal["gradients"]] = "gradients"

    mean_decay: float = Field(
        0.99, ge=0, lt=1, description="How slowly the mean of each coordinate follows releases."
    )
    spread_decay: float = Field(
        0.9, ge=0, lt=1, description="How slowly the spread of each coordinate follows releases."
    )
    spread_range: float = Field(
        10.0,
        ge=1,
        le=1e6,
        description="A spread stays within this factor of what it was taken for at first.",
    )

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        return {
            "spread": self.max_grad_norm / math.sqrt(max(1, sum(group_sizes.values()))),
            "mean": {},
            "variance": {},
        }

    def at(self, state: State) -> Rescaled | AdaClip:
        return Rescaled(state["mean"], self._scale(state)) if state["mean"] else self

    def transform(self, gradient: Coordinates) -> Coordinates:
        """Give the gradient as it is: nothing was released yet."""
        return gradient

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return (bounds / norms).clamp(max=1)

    def restore(self, state: State, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        if not state["mean"]:
            return gradient
        scale = self._scale(state)
        return {
            name: g * scale[name].to(g) + state["mean"][name].to(g) for name, g in gradient.items()
        }

    def update(self, state: State, released: Mapping[str, Any]) -> State:
        first = state["spread"]
        low, high = (first / self.spread_range) ** 2, (first * self.spread_range) ** 2
        scale = self._scale(state) if state["mean"] else {}
        means, variances = {}, {}
        for name, seen in self.restore(state, released["gradient"]).items():
            mean, variance = (
                state["mean"].get(name, 0.0 * seen),
                state["variance"].get(name, 0.0 * seen + first**2),
            )
            noise = (released["noise_std"] * scale.get(name, 1.0)) ** 2
            # A mean of B examples varies B times less than one of them does.
            found = ((seen - mean.to(seen)) ** 2 - noise) * released["expected_batch_size"]
            means[name] = self.mean_decay * mean.to(seen) + (1 - self.mean_decay) * seen
            variances[name] = self.spread_decay * variance.to(seen) + (
                1 - self.spread_decay
            ) * found.clamp(low, high)
        return {"spread": first, "mean": means, "variance": variances}

    def _scale(self, state: State) -> dict[str, Tensor]:
        spreads = {name: variance.sqrt() for name, variance in state["variance"].items()}
        total = sum(spread.sum() for spread in spreads.values())  # stays on its device
        return {
            name: (spread * total).sqrt() / self.max_grad_norm for name, spread in spreads.items()
        }
