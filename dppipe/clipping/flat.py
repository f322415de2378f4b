"""Flat clipping: one norm over all parameters, cut at the bound.

Source: Abadi et al. 2016, Algorithm 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.clipping.base import Clipper

if TYPE_CHECKING:
    from torch import Tensor


class Flat(Clipper, kind="flat"):
    """Scales a gradient down to the bound when its norm over all parameters is larger."""

    elementwise: ClassVar[bool] = True

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return (bounds / norms).clamp(max=1)
