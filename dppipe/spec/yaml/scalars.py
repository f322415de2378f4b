"""Plain scalars of YAML 1.2 (core schema): which unquoted text is a number, a boolean, nothing, or
just text.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_INTEGER = re.compile(r"[-+]?[0-9]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None} | {
    form: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for form in (word, word.capitalize(), word.upper())
}
_LARGEST = 2**63


class Scalar(NamedTuple):
    """A scalar's value, and why it isn't accepted."""

    value: str | int | float | bool | None
    fault: str | None = None


def read_scalar(text: str) -> Scalar:
    """Read unquoted text; where it is refused, the text itself stands for its value."""
    if text in _WORDS:
        return Scalar(_WORDS[text])
    if _LEADING_ZERO.fullmatch(text):
        fault = (
            f"expected a number without leading zeros, got {text[:40]}. Drop the zeros, or "
            "quote it if it is a name."
        )
        return Scalar(text, fault)
    if _INTEGER.fullmatch(text) or _BASED.fullmatch(text):
        # 64 bits hold every number a spec needs; Python would read thousands of digits, at a price.
        number = int(text, 0) if len(text) <= 24 else _LARGEST
        return Scalar(number) if -_LARGEST <= number < _LARGEST else Scalar(text, _too_large(text))
    if _FLOAT.fullmatch(text):
        return _read_float(text)
    if _NOT_FINITE.fullmatch(text):
        return Scalar(text, f"expected a finite number, got {text}. Give a number.")
    return Scalar(text)


def _read_float(text: str) -> Scalar:
    value = float(text)
    if math.isinf(value):
        return Scalar(text, _too_large(text))
    if value == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        return Scalar(
            text,
            f"expected a number that a 64-bit float can represent, got {text[:40]}. "
            "It would become 0.",
        )
    return Scalar(value)


def _too_large(text: str) -> str:
    return f"expected a number that fits in 64 bits, got {text[:40]}. Give a smaller one."
