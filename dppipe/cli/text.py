"""Plain text that fits a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

WIDTH = 80


def table(facts: Mapping[str, str]) -> str:
    """Lay out names and values in two columns; long values go on under themselves."""
    indent = max(map(len, facts)) + 4
    lines = []
    for name, value in facts.items():
        first = f"  {name:<{indent - 2}}"
        lines.append(textwrap.fill(value, WIDTH, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False))
    return "\n".join(lines)


def wrapped(sentence: str) -> str:
    """Break a sentence into lines."""
    return textwrap.fill(sentence, WIDTH, break_on_hyphens=False)
