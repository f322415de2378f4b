"""Clippers: how one example's gradient is shrunk.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.clipping.adaclip import AdaClip
    from dppipe.clipping.adaptive import Adaptive
    from dppipe.clipping.automatic import Automatic
    from dppipe.clipping.base import Clipper
    from dppipe.clipping.flat import Flat
    from dppipe.clipping.grouped import Grouped
    from dppipe.clipping.jl import Jl
    from dppipe.clipping.layerwise import Layerwise
    from dppipe.clipping.microbatch import Microbatch
    from dppipe.clipping.psac import Psac

    # `global` is a keyword, so its file can't be named in an import statement.
    Global: type[Clipper]

__all__ = [
    "AdaClip",
    "Adaptive",
    "Automatic",
    "Clipper",
    "Flat",
    "Global",
    "Grouped",
    "Jl",
    "Layerwise",
    "Microbatch",
    "Psac",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AdaClip": ".adaclip",
        "Adaptive": ".adaptive",
        "Automatic": ".automatic",
        "Clipper": ".base",
        "Flat": ".flat",
        "Global": ".global",
        "Grouped": ".grouped",
        "Jl": ".jl",
        "Layerwise": ".layerwise",
        "Microbatch": ".microbatch",
        "Psac": ".psac",
    },
)
