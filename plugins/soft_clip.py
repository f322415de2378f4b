"""A plugin clipper: gradients are shrunk smoothly, so that none sits exactly at the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe import Clipper, Field

if TYPE_CHECKING:
    from torch import Tensor


class SoftClip(Clipper, kind="soft"):
    """Shrinks every gradient smoothly instead of cutting at the bound."""

    stability: float = Field(0.01, gt=0, description="Keeps tiny gradients from being blown up.")

    def factors(
        self, norms: Tensor, bounds: Tensor
    ) -> Tensor:  # one example: [groups], [groups] -> [groups]
        return bounds / (norms + self.stability)
