"""Plain text for people: wrapped between words, never inside a path or a command.

`shown_command` is the one way in which a message names a command with a path: what it returns can
be copied into a shell, whatever the path contains.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path

WIDTH = 80
"""The width of tables and sentences; messages take the whole width of a terminal."""
_WORD = r"(?:'[^']*'|[^\s'])+"
"""A word of a shell command: quoted parts may hold spaces."""
_COMMAND = re.compile(
    r"`[^`]*`"  # anything in backticks
    rf"|dppipe [a-z]+(?: (?:verify|check|list|new|copy))? (?=\S*[/A-Z_.'])(?!--){_WORD}"
)
_PLACE = re.compile(r"\A[^`:]*/[^`]*?: ")
"""A path at the beginning of a message, which may hold spaces."""
_STAYS = "\ue000"
"""Replaces a space at which a line must not be broken."""


def shown_command(*words: str | Path) -> str:
    """Return a `dppipe` command that can be copied into a shell; words are quoted where needed."""
    return shlex.join(["dppipe", *map(str, words)])


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


def shorten(text: str, width: int) -> str:
    """Return a text of at most `width` characters, cut between two words and marked by dots.

    Only a word that is longer than half the width is cut itself.
    """
    if len(text) <= width:
        return text
    room = width - len(" ...")
    head = text[: room + 1]
    end = head.rfind(" ")
    if end < width // 2:
        return f"{text[: width - 3]}..."
    return f"{head[:end].rstrip()} ..."


def short_path(path: str | Path) -> str:
    """Return a path relative to the working directory, if it lies below it."""
    below = Path(path)
    return str(below.relative_to(Path.cwd()) if below.is_relative_to(Path.cwd()) else below)


def _joined(found: re.Match[str]) -> str:
    """Return a match whose inner spaces no line is broken at."""
    text = found.group()
    inner = text.rstrip()
    return inner.replace(" ", _STAYS) + text[len(inner) :]
