"""The noise on released statistics, as a block of `dppipe plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.cli.printing.wrapping import fill, wrapped

if TYPE_CHECKING:
    from dppipe.planning.release_noise import ReleaseNoise

_SHOWN = 6
_WARNING = (
    "WARNING: noise drowns statistics of {places}. Give closer limits (for groups of features by "
    "`limits`), fewer features, less noise, or constants that are public."
)


def noise_block(found: Sequence[ReleaseNoise]) -> list[str]:
    """Return the block, and a warning where noise drowns usual values; nothing without releases."""
    if not found:
        return []
    lines = ["noise on what is released first (one standard deviation)"]
    for each in found[:_SHOWN]:
        lines.append(fill(each.text, first="  ", rest="    "))
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more (--json shows them)")
    parts = ["\n".join(lines)]
    drowned = dict.fromkeys(each.place for each in found if each.drowns)
    if drowned:
        parts.append(wrapped(_WARNING.format(places=" and ".join(drowned))))
    return parts
