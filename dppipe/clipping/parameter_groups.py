"""How several clippers put parameters in groups: by layer, or by patterns of names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from dppipe.errors import UsageError


def by_layer(names: Iterable[str]) -> dict[str, str]:
    """Put the parameters of one module in one group: `0.weight` and `0.bias` in `0`."""
    return {name: name.rpartition(".")[0] or name for name in names}


def by_pattern(names: Iterable[str], patterns: Iterable[str]) -> dict[str, str]:
    """Put each parameter in the group of the first pattern that matches its whole name.

    `*` matches any text. A parameter that no pattern matches is refused, and so is a pattern that
    gets no parameter; `*` as the last pattern takes the rest.
    """
    patterns = list(patterns)
    found: dict[str, str] = {}
    left = []
    for name in names:
        pattern = _first_match(name, patterns)
        if pattern is None:
            left.append(name)
        else:
            found[name] = pattern
    if left:
        raise UsageError(
            "clipping.max_grad_norms: expected a pattern for every trainable parameter, "
            f"got none for {', '.join(left)}. "
            'Add one; a last pattern "*" takes the rest.'
        )
    for pattern in patterns:
        if pattern not in found.values():
            raise UsageError(
                "clipping.max_grad_norms: expected each pattern to be the first that matches some "
                f"parameter, got {pattern!r}, which gets none of {', '.join(found)}. "
                "Fix it, move it up, or leave it out."
            )
    return found


def _first_match(name: str, patterns: Sequence[str]) -> str | None:
    for pattern in patterns:
        if fnmatchcase(name, pattern):
            return pattern
    return None


def with_whole_bound(data: Any) -> Any:
    """Fill in the `max_grad_norm` that the bounds of all groups make together.

    Another `max_grad_norm` beside them is refused.
    """
    listed = data.get("max_grad_norms") if isinstance(data, dict) else None
    if isinstance(listed, list):
        listed = tuple(listed)
        data = {**data, "max_grad_norms": listed}
    bounds: list[Any] = []
    if isinstance(listed, dict):
        bounds = list(listed.values())
    elif isinstance(listed, tuple):
        bounds = list(listed)
    if not bounds or not all(_is_bound(bound) for bound in bounds):
        return data  # nothing is listed, or the field's own validation reports what is wrong
    whole = math.hypot(*bounds)
    if not math.isclose(data.get("max_grad_norm", whole), whole):
        raise ValueError(
            f"expected no max_grad_norm beside max_grad_norms, whose norm is {whole:g}. "
            "Leave it out."
        )
    return {**data, "max_grad_norm": whole}


def _is_bound(value: Any) -> bool:
    return isinstance(value, (int, float)) and value > 0


def equal_shares(bound: float, sizes: Mapping[str, int]) -> tuple[float, ...]:
    """Split a bound equally: the norm of the shares is the bound."""
    return (bound / math.sqrt(max(1, len(sizes))),) * len(sizes)


def shares_by_size(bound: float, sizes: Mapping[str, int]) -> tuple[float, ...]:
    """Split a bound by the number of parameters.

    A gradient whose coordinates are all equal would be split in the same way.
    """
    total = max(1, sum(sizes.values()))
    return tuple(bound * math.sqrt(size / total) for size in sizes.values())
