"""What a step releases, and how far one unit can move it.

A step releases a clipped sum and, for adaptive clippers, statistics beside it. The core asks the
clipper for the sum's sensitivity, and refuses one below what the bounds imply. Statistics are
clamped to [-1/2, 1/2]. Read next: `step.py`, which clips and sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dppipe.clipper_abilities import ReleasesStatistics, averages, sensitivity
from dppipe.engine import first_of_units
from dppipe.errors import PrivacyRefusal, UsageError

if TYPE_CHECKING:
    from dppipe.clipping.base import Clipper
    from dppipe.privacy.budget import Relation


def noise_unit(
    clipper: Clipper,
    bounds: Sequence[float],  # [G]
    relation: Relation,
    *,
    order: int = 2,
) -> float:
    """Return the standard deviation on the clipped sum for a noise multiplier of 1.

    Guarantees:
    - It is the clipper's sensitivity under the relation. Under `replace_one` it is half of that, as
      accountants double the sensitivity there.
    - It is at least the norm of the bounds, and twice that where examples are averaged and one of
      them is taken out.
    - For `order` 1, where groups are bounded in their L1 norms, it is the sum of the bounds.
    """
    for bound in bounds:
        if not 0 < bound < math.inf:
            raise PrivacyRefusal(
                f"clipping: expected finite bounds > 0, got {list(bounds)}. "
                "Fix bounds() or update()."
            )
    whole = norm_of(bounds, order=order)
    if order == 1:
        return whole
    replaced = relation == "replace_one"
    least = whole * (2 if replaced or averages(clipper) else 1)
    stated = sensitivity(clipper, bounds, relation)
    if not least * (1 - 1e-9) <= stated < math.inf:
        raise PrivacyRefusal(
            f"clipping: expected a sensitivity of at least {least:g} under {relation}, "
            f"which the bounds imply, got {stated:g}. "
            "Fix sensitivity(), or leave it to its base."
        )
    return max(stated, least) / (2 if replaced else 1)


def norm_of(bounds: Sequence[float], *, order: int) -> float:  # [G]
    """Return the norm of the bounds of all groups: the Euclidean one, or their sum."""
    return math.fsum(bounds) if order == 1 else math.hypot(*bounds)


def count_statistics(clipper: Clipper, bounds: Tensor) -> int:  # [G]
    """Return the number of statistics of one example; a made-up one is counted."""
    if not isinstance(clipper, ReleasesStatistics):
        return 0
    return clipper.statistics(bounds.clone(), bounds.clone()).numel()


def add_statistics(
    clipper: Any,
    norms: Tensor,  # [B, G]
    bounds: Tensor,  # [G]
    *,
    into: Tensor,  # [K]
    units: Any,
) -> None:
    """Add up the statistics of a physical batch's examples, or units.

    Guarantee: one example, or unit, changes each sum by at most 1/2, so all K of them by at most
    sqrt(K) / 2, whatever the clipper returns. A NaN counts as 0.
    """
    if not len(norms) or not len(into):
        return
    found = _statistics(clipper, norms, bounds, count=len(into))
    if found.shape != (len(norms), len(into)):
        raise UsageError(
            f"clipping: expected {len(into)} statistics of an example, got shape "
            f"{tuple(found.shape[1:])}. Fix statistics()."
        )
    held = torch.where(found.isnan(), 0, found.to(into.dtype)).clamp(-0.5, 0.5)
    if units is not None:
        # Each unit counts once. A product, as a mask would wait for the device to count its rows.
        held = held * first_of_units(units)[:, None].to(held)
    into += held.sum(0)


def _statistics(clipper: Any, norms: Tensor, bounds: Tensor, *, count: int) -> Tensor:  # -> [B, K]
    """Return every row's statistics: zeros for a row on which a plugin raises."""
    ask = torch.func.vmap(clipper.statistics, in_dims=(0, None))
    try:
        found: Tensor = ask(norms.clone(), bounds.clone())
        return found
    except Exception:
        rows = []
        for row in norms:
            try:
                rows.append(ask(row[None].clone(), bounds.clone())[0])
            except Exception:
                rows.append(bounds.new_zeros(count))
        return torch.stack(rows)
