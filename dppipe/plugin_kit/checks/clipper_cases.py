"""Norms and bounds to try on a clipper, and what its factors for them have to be.

Read next: `clippers.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dppipe.clipping.base import Clipper
from dppipe.engine.groups import bounds_tensor, make_groups
from dppipe.plugin_kit.checks.table import Fault, Remark

ONE = {"weight": torch.zeros(3)}
MANY = {
    name: torch.zeros(shape)
    for name, shape in {
        "0.weight": (4, 3),
        "0.bias": (4,),
        "2.weight": (2, 4),
        "2.bias": (2,),
        "scale": (),
    }.items()
}
TINY, HUGE = (1e-30, 1e-12, 1e-6), (1e6, 1e18, 1e30)
TOLERANCE = 1e-3


def bounds_cases(clipper: Clipper) -> Iterator[tuple[str, Tensor]]:
    """Yield bounds for a model with one parameter and for one with many.

    Where groups are free, bounds for five groups follow.
    """
    for parameters in (ONE, MANY):
        groups = make_groups(clipper, parameters)
        bounds = bounds_tensor(clipper, groups, None, torch.zeros(()))
        yield f"{len(groups.names)} group{'s' if len(groups.names) > 1 else ''}", bounds
    if type(clipper).groups is Clipper.groups:
        yield "5 groups", bounds[:1].repeat(5)


def mixed_norms(bounds: Tensor) -> Tensor:  # [G] -> [B, G]
    """Return norms from far below to far above the bounds, different ones in each group."""
    sizes, rows = torch.logspace(-4, 4, 12), torch.arange(12)
    return sizes[(rows[:, None] + torch.arange(len(bounds))) % len(sizes)] * bounds


def try_norms(clipper: Clipper, values: Sequence[float]) -> Remark:
    """Hold the factors for these norms, in all groups alike, to the bounds."""
    for label, bounds in bounds_cases(clipper):
        norms = torch.tensor(values)[:, None] * torch.ones_like(bounds)
        judge_factors(ask_factors(clipper, norms, bounds), norms, bounds, label=label)
    return None


def ask_factors(clipper: Clipper, norms: Tensor, bounds: Tensor) -> Tensor:  # [B, G], [G] -> [B, G]
    """Ask for the factors of a batch, one example at a time as a run does; refuse another shape or
    type.
    """
    found = torch.func.vmap(clipper.factors, in_dims=(0, None))(norms.clone(), bounds.clone())
    if not isinstance(found, Tensor) or found.shape != norms.shape:
        got = (
            f"shape {list(found.shape[1:])}" if isinstance(found, Tensor) else type(found).__name__
        )
        raise Fault(
            f"expected one factor for each group, shape [{len(bounds)}], got {got}. Give "
            "[groups] for [groups]."
        )
    if not found.is_floating_point():
        raise Fault(
            f"expected factors that are floating-point numbers, got {found.dtype}. "
            "Multiply, or use torch.where."
        )
    return found


def judge_factors(
    factors: Tensor, norms: Tensor, bounds: Tensor, *, label: str, tolerance: float = TOLERANCE
) -> None:
    """Refuse factors that aren't from 0 to bound / norm."""
    factors, norms, bounds = factors.double(), norms.double(), bounds.double()
    for wrong, why, instead in (
        (factors.isnan(), "which is no number", "0"),
        (factors.isinf(), "which is infinite", "0"),
        (factors < 0, "which is negative", "0"),
        (
            factors * norms > bounds * (1 + tolerance),
            "so factor x norm exceeds the bound",
            "bound / norm",
        ),
    ):
        if wrong.any():
            row, group = wrong.nonzero()[0].tolist()
            raise Fault(
                f"expected a factor from 0 to bound / norm, got {factors[row, group]:g} at norm "
                f"{norms[row, group]:g} and bound {bounds[group]:g} with {label}, {why}. The core "
                f"puts {instead} there."
            )
