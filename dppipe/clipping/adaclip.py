"""AdaClip: each coordinate is shifted and scaled before clipping.

The shift and the scale follow the mean and spread of earlier releases.
"""

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
        """Return one example's gradient in the coordinates in which it is clipped."""
        changed = {}
        for name, g in gradient.items():
            changed[name] = (g - self.mean[name].to(g)) / self.scale[name].to(g)
        return changed

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return (bounds / norms).clamp(max=1)


class AdaClip(Clipper, kind="adaclip"):
    """Clips in coordinates of equal importance, so noise is small where gradients vary little.

    Source: Pichapati et al. 2019. With s the standard deviation of a coordinate over examples,
    scale = sqrt(s * sum of all s) / max_grad_norm has the least noise for a given share of clipped
    examples. The first step is flat clipping.

    Guarantees:
    - Means and deviations only follow released gradients.
    - The sensitivity in the new coordinates is the bound, for a record that contributes or not. (A
      gradient of zero isn't zero in the new coordinates, so it isn't what `zero_out` means.)
    """

    elementwise: ClassVar[bool] = True

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
        description="A spread stays within this factor of its first value.",
    )

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        parameters = max(1, sum(group_sizes.values()))
        return {"spread": self.max_grad_norm / math.sqrt(parameters), "mean": {}, "variance": {}}

    def at(self, state: State) -> Rescaled | AdaClip:
        return Rescaled(state["mean"], self._scale(state)) if state["mean"] else self

    def transform(self, gradient: Coordinates) -> Coordinates:
        """Return the gradient as it is: nothing was released yet."""
        return gradient

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return (bounds / norms).clamp(max=1)

    def restore(self, state: State, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        if not state["mean"]:
            return gradient
        scale = self._scale(state)
        restored = {}
        for name, g in gradient.items():
            restored[name] = g * scale[name].to(g) + state["mean"][name].to(g)
        return restored

    def update(self, state: State, released: Mapping[str, Any]) -> State:
        first = state["spread"]
        low = (first / self.spread_range) ** 2
        high = (first * self.spread_range) ** 2
        scale = self._scale(state) if state["mean"] else {}
        means = {}
        variances = {}
        for name, seen in self.restore(state, released["gradient"]).items():
            mean = state["mean"].get(name, 0.0 * seen).to(seen)
            variance = state["variance"].get(name, 0.0 * seen + first**2).to(seen)
            noise = (released["noise_std"] * scale.get(name, 1.0)) ** 2
            # A mean of B examples varies B times less than one of them does.
            found = ((seen - mean) ** 2 - noise) * released["expected_batch_size"]
            found = found.clamp(low, high)
            means[name] = self.mean_decay * mean + (1 - self.mean_decay) * seen
            variances[name] = self.spread_decay * variance + (1 - self.spread_decay) * found
        return {"spread": first, "mean": means, "variance": variances}

    def _scale(self, state: State) -> dict[str, Tensor]:
        spreads = {name: variance.sqrt() for name, variance in state["variance"].items()}
        total = sum(spread.sum() for spread in spreads.values())  # stays on its device
        scales = {}
        for name, spread in spreads.items():
            scales[name] = (spread * total).sqrt() / self.max_grad_norm
        return scales
