"""Automatic clipping: every gradient is scaled to about the bound.

That leaves only the learning rate to choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from dppipe.clipping.base import Clipper
from dppipe.component import Field

if TYPE_CHECKING:
    from torch import Tensor


class Automatic(Clipper, kind="automatic"):
    """Normalises gradients instead of cutting them (Bu et al. 2023, "Automatic clipping")."""

    elementwise: ClassVar[bool] = True

    variant: Literal["auto_s", "auto_v"] = Field(
        "auto_s",
        description="`auto_s` lets tiny gradients stay smaller; `auto_v` scales all to the bound.",
    )
    stability: float = Field(
        0.01, gt=0, description="With `auto_s`: gradients much smaller than this stay small."
    )

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        if self.variant == "auto_s":
            return bounds / (norms + self.stability)
        return (bounds / norms).nan_to_num(posinf=0)  # a gradient of zero has no direction
