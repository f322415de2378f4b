"""How text reaches a person: as it is into files and pipes, with a few colours on a terminal.

Colours repeat what the words say. NO_COLOR and TERM=dumb turn them off.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.text import Text

_LABEL = re.compile(r"^  (?=\S)(.+?)(?=  +\S)")
"""The name in the first column of a table."""
_STYLES = (
    (r"\b(NOT PRIVATE|CONTRADICTION|REJECTED|rejected|refused|NO\.)", "bold red"),
    (r"\b(ESTIMATE)\b", "bold yellow"),
    (r"\b(certified|completed|valid)\b", "green"),
    (r"\b(budget_exhausted|budget exhausted|interrupted|failed)\b", "yellow"),
)


def say(text: str) -> None:
    """Print a text that is laid out already."""
    if not _has_colours():
        typer.echo(text)
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(coloured(text))


def _has_colours() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdout.isatty()


def coloured(text: str) -> Text:
    """Return a text with the styles of its headings, names and verdicts."""
    from rich.text import Text

    made = Text()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if number:
            made.append("\n")
        made.append_text(_styled(line, heading=_is_heading(lines, number)))
    for pattern, style in _STYLES:
        made.highlight_regex(pattern, style)
    return made


def _styled(line: str, *, heading: bool) -> Text:
    from rich.text import Text

    made = Text(line, style="bold" if heading else "")
    label = _LABEL.match(line)
    if label is not None:
        made.stylize("cyan", label.start(1), label.end(1))
    return made


def _is_heading(lines: list[str], number: int) -> bool:
    """Return whether a line is of a heading: a paragraph above a table or a space, no sentence."""
    last = number
    while last + 1 < len(lines) and lines[last + 1] and not lines[last + 1].startswith(" "):
        last += 1
    at_margin = bool(lines[number]) and not lines[number].startswith(" ")
    return at_margin and last + 1 < len(lines) and not lines[last].endswith((".", ")", ":"))
