"""A statement cut into its elements: headings, rows of tables and single sentences."""

from __future__ import annotations

import re
from functools import cache

_SENTENCE_END = re.compile(r"(?<=\.)\s+(?=[A-Z`])")


def elements(text: str) -> list[str]:
    """Return every heading, table row and sentence of a statement, in order."""
    found: list[str] = []
    for line in text.splitlines():
        found += _of_line(line)
    return found


@cache
def _of_line(line: str) -> list[str]:
    stripped = line.removeprefix("- ").replace("**", "")
    if not stripped or set(stripped) <= set("|-"):
        return []
    return [stripped] if stripped.startswith(("#", "|")) else _SENTENCE_END.split(stripped)
