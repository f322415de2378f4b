"""Per-sample adaptive clipping ("DP-PSAC"): nearly normalised, except for tiny gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.clipping.base import Clipper
from dppipe.component import Field

if TYPE_CHECKING:
    from torch import Tensor


class Psac(Clipper, kind="psac"):
    """Weighs each gradient by a curve of its norm that rises, then falls (Xia et al. 2023)."""

    elementwise: ClassVar[bool] = True

    stability: float = Field(
        0.1, gt=0, le=1, description="r of the paper: gradients much smaller than this stay small."
    )

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return bounds / (norms + self.stability / (norms + self.stability))
