"""Ways of putting parameters in groups that several clippers share: by layer, or by patterns of names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from dppipe.errors import UsageError


def by_layer(names: Iterable[str]) -> dict[str, str]:
    """Put the parameters of one module in one group: `0.weight` and `0.bias` in `0`."""
    return {name: name.rpartition(".")[0] or name for name in names}


def by_pattern(names: Iterable[str], patterns: Iterable[str]) -> dict[str, str]:
    """Put each parameter in the group of the first pattern that matches its whole name; `*` matches any text.

    A parameter that no pattern matches is refused, and so is a pattern that gets none; `*` as the last one takes the rest.
    """
    patterns = list(patterns)
    found = {
        name: next((pattern for pattern in patterns if fnmatchcase(name, pattern)), None)
        for name in names
    }
    left = [name for name, pattern in found.items() if pattern is None]
    if left:
        raise UsageError(
            f"clipping.max_grad_norms: expected a pattern for every trainable parameter, got none for {', '.join(left)}. "
            'Add one; a last pattern "*" takes the rest.'
        )
    idle = [pattern for pattern in patterns if pattern not in found.values()]
    if idle:
        raise UsageError(
            f"clipping.max_grad_norms: expected each pattern to be the first that matches some parameter, got {idle[0]!r}, "
            f"which gets none of {', '.join(found)}. Mend it, move it up, or leave it out."
        )
    return {name: pattern for name, pattern in found.items() if pattern is not None}


def with_whole_bound(data: Any) -> Any:
    """Fill in the `max_grad_norm` that the bounds of all groups make together, and refuse another one."""
    listed = data.get("max_grad_norms") if isinstance(data, dict) else None
    if isinstance(listed, list):
        listed, data = tuple(listed), {**data, "max_grad_norms": tuple(listed)}
    bounds = (
        list(listed.values())
        if isinstance(listed, dict)
        else list(listed)
        if isinstance(listed, tuple)
        else []
    )
    if not bounds or not all(isinstance(bound, (int, float)) and bound > 0 for bound in bounds):
        return data  # nothing is listed, or what is wrong with it is said elsewhere
    whole = math.hypot(*bounds)
    if not math.isclose(data.get("max_grad_norm", whole), whole):
        raise ValueError(
            f"expected no max_grad_norm beside max_grad_norms, whose norm is {whole:g}. Leave it out."
        )
    return {**data, "max_grad_norm": whole}


def equal_shares(bound: float, sizes: Mapping[str, int]) -> tuple[float, ...]:
    """Split a bound equally: the norm of the shares is the bound."""
    return (bound / math.sqrt(max(1, len(sizes))),) * len(sizes)


def shares_by_size(bound: float, sizes: Mapping[str, int]) -> tuple[float, ...]:
    """Split a bound by the number of parameters: as a gradient would split whose coordinates are all alike."""
    total = max(1, sum(sizes.values()))
    return tuple(bound * math.sqrt(size / total) for size in sizes.values())
