"""Plain text that fits a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

WIDTH = 80


def table(facts: Mapping[str, str]) -> str:
    """Lay out names and values in two columns; long values go on under themselves, and a long path stays whole."""
    indent = max(map(len, facts)) + 4
    return "\n".join(_fill(value, first=f"  {name:<{indent - 2}}", rest=" " * indent) for name, value in facts.items())


def wrapped(sentence: str) -> str:
    """Break a sentence into lines."""
    return _fill(sentence)


def short_path(path: str | Path) -> str:
    """Give a path as it is written from here, if it lies below the working directory."""
    below = Path(path)
    return str(below.relative_to(Path.cwd()) if below.is_relative_to(Path.cwd()) else below)


def _fill(text: str, *, first: str = "", rest: str = "") -> str:
    # A path that is broken can't be copied: a terminal's own wrapping is better.
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
