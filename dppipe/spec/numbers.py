"""Numbers that no spec needs and that arithmetic on them would turn into infinities or zeros: they
are faults by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dppipe.errors import Problem
from dppipe.spec.yaml.document import Path

LEAST, LARGEST = 1e-60, 1e30


def find_extremes(data: Any, path: Path = ()) -> Iterator[Problem]:
    """Find every number whose square, or product with another such, may not fit in a float."""
    if isinstance(data, float) and data and not LEAST <= abs(data) <= LARGEST:
        yield Problem(
            path,
            f"expected 0 or a number from {LEAST:g} to {LARGEST:g} in size, got {data:g}. "
            "Give one that is meant.",
        )
    elif isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from find_extremes(value, (*path, key))
