"""What an attack hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LINES = 12
"""How many lines a report shows on a screen, at most."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an attack has found; what was computed from real records has no noise."""

    kind: str
    """`membership`, `inversion` or `gradients`."""
    method: str
    lines: Sequence[str]
    """What a screen shows, the verdict first; at most `MOST_LINES`, of plain text."""
    data: Mapping[str, Any]
    """The content of `attack.json`: plain data."""
    text: Sequence[str] = ()
    """Paragraphs of `attack.md` after the lines."""
    picture: str = "attack.png"
    """The file name of the picture."""
    draw: Callable[[Figure], None] | None = None
    """Draws the picture on an empty figure; None where there is none."""
    from_records: bool = True
    """Whether a real record was used; otherwise nothing here says anything of one."""
