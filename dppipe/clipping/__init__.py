"""Clippers: how one example's gradient is shrunk. One kind a file, named after it; `base` is the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.clipping.base import Clipper
    from dppipe.clipping.flat import Flat
    from dppipe.clipping.layerwise import Layerwise

__all__ = ["Clipper", "Flat", "Layerwise"]

__getattr__ = lazy_names(__name__, {"Clipper": ".base", "Flat": ".flat", "Layerwise": ".layerwise"})
