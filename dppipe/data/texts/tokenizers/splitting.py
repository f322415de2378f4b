"""How a text is split into words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

SplitOn = Literal["punctuation", "spaces"]
"""Words are runs of letters, digits and inner apostrophes, or whatever stands between spaces."""
_WORD = re.compile(r"\w+(?:'\w+)*")


def splitter(on: SplitOn, *, lowercase: bool) -> Callable[[str], list[str]]:
    """Return what splits a text into words."""
    find: Callable[[str], list[str]] = str.split if on == "spaces" else _WORD.findall
    if not lowercase:
        return find
    return lambda text: find(text.lower())
