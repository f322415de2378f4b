"""Messages that fit a terminal; `dppipe/text_layout.py` lays out the text itself."""

from __future__ import annotations

import os
from typing import IO, Any

from dppipe.text_layout import WIDTH, fill, short_path, table

__all__ = ["WIDTH", "fill", "fit_terminal", "short_path", "table", "wrapped"]


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


def _columns(stream: IO[Any]) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH
