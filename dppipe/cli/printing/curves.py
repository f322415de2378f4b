"""Epsilon over the steps as bars of plain characters, for terminals, logs and pipes alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dppipe.cli.printing.wrapping import WIDTH
from dppipe.privacy.printing import shown

_MARK = "|"


class Point(NamedTuple):
    """Epsilon after so many steps."""

    step: int
    epsilon: float
    aside: str = ""
    """What stands in brackets beside epsilon."""


def curve_text(points: Sequence[Point], *, limit: float | None = None) -> str:
    """Lay out a line for each point: its numbers, and a bar whose length is its epsilon.

    With a limit, such as the budget, a mark stands where it is.
    """
    rows = []
    for point in points:
        aside = f"  ({point.aside})" if point.aside else ""
        rows.append(f"  step {point.step:>8}  {shown(point.epsilon):>8}{aside}")
    indent = max(map(len, rows), default=0) + 2
    room = WIDTH - indent - len(_MARK)
    finite = [point.epsilon for point in points if math.isfinite(point.epsilon)]
    top = max([*finite, limit or 0.0], default=0.0)
    if top <= 0:
        return "\n".join(rows)
    lines = []
    for point, row in zip(points, rows, strict=True):
        length = room if math.isinf(point.epsilon) else round(room * point.epsilon / top)
        bar = "=" * length
        if limit is not None:
            mark = round(room * limit / top)
            bar = f"{bar:<{mark}}"[:mark] + _MARK + bar[mark:]
        lines.append(f"{row:<{indent}}{bar}".rstrip())
    return "\n".join(lines)
