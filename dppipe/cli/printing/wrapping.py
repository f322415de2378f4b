"""Plain text that fits a terminal: wrapped between words, never inside a path or a command."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

WIDTH = 80
"""The width of tables and sentences; messages take the whole width of a terminal."""
_COMMAND = re.compile(
    r"`[^`]*`"  # anything in backticks
    r"|dppipe [a-z]+(?: (?:verify|check|list|new))? [^\s]*[/A-Z_.][^\s]*"  # a command and its path
)
_PLACE = re.compile(r"\A[^`:]*/[^`]*?: ")
"""A path at the beginning of a message, which may hold spaces."""
_STAYS = "\ue000"
"""Replaces a space at which a line must not be broken."""


def table(facts: Mapping[str, str]) -> str:
    """Lay out names and values in two columns; long values go on under themselves.

    A path stays whole, and so does a value that is a command.
    """
    indent = max(map(len, facts)) + 4
    lines: list[str] = []
    for name, value in facts.items():
        first = f"  {name:<{indent - 2}}"
        is_command = value.startswith("dppipe ")
        lines.append(
            f"{first}{value}" if is_command else fill(value, first=first, rest=" " * indent)
        )
    return "\n".join(lines)


def wrapped(sentence: str) -> str:
    """Break a sentence into lines."""
    return fill(sentence)


def fit_terminal(message: str, *, stream: IO[Any]) -> str:
    """Wrap a message at the width of its terminal; what goes into a file or a pipe stays as it is.

    Lines that begin with a space show a part of a file, and stay as they are.
    """
    if not stream.isatty():
        return message
    width = _columns(stream)
    lines: list[str] = []
    for line in message.splitlines():
        is_excerpt = line.startswith(" ")
        lines.append(line if is_excerpt else fill(line, width=width))
    return "\n".join(lines)


def short_path(path: str | Path) -> str:
    """Return a path relative to the working directory, if it lies below it."""
    below = Path(path)
    return str(below.relative_to(Path.cwd()) if below.is_relative_to(Path.cwd()) else below)


def _columns(stream: IO[Any]) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def fill(text: str, *, first: str = "", rest: str = "", width: int = WIDTH) -> str:
    """Break a text into lines; the first one and the rest may have prefixes."""
    # A path that is broken can't be copied: a terminal's own wrapping is better.
    kept = _PLACE.sub(_joined, _COMMAND.sub(_joined, text))
    lines = textwrap.fill(
        kept,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return lines.replace(_STAYS, " ")


def _joined(found: re.Match[str]) -> str:
    """Return a match whose inner spaces no line is broken at."""
    text = found.group()
    inner = text.rstrip()
    return inner.replace(" ", _STAYS) + text[len(inner) :]
