"""Norms that are estimated from random projections, and the clipped sum by one weighted backward pass.

The slope of every row's loss along one random direction takes one pass, by differentiating a backward pass with respect to the
weights of its rows; the mean square of r slopes is the squared norm times chi2_r / r. Nothing is held for each row but these
numbers. An estimate can be too low, so what comes out is raised by the clipper's tolerance, and the chance that this isn't enough
is the clipper's to pay for (`dppipe.clipping.jl`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dppipe.engine.bounds import bounded_factors
from dppipe.engine.contracts import Factors, PerSampleLoss
from dppipe.engine.units import Units


class Projections:
    """Clipped sums of a model by estimated norms.

    Guarantee: directions come from fresh entropy at each call, so no record can be made to hide from them; norms and sums are
    of one forward pass, so that dropout is the same in both.
    """

    def __init__(self, model: nn.Module, per_sample_loss: PerSampleLoss, clipper: Any) -> None:
        self._model = model
        self._per_sample_loss = per_sample_loss
        self._count: int = clipper.projections
        self._tolerance: float = clipper.tolerance

    def accumulate(
        self,
        parameters: Mapping[str, Tensor],
        batch: Any,
        into: Mapping[str, Tensor],
        clipper: Factors,
        *,
        bounds: Tensor,  # [1]
        mask: Tensor | None,  # [B] of bool
        units: Units | None,
    ) -> Tensor:  # -> [B or U, 1]
        """Add the clipped sum onto `into` and give the raised estimates of the norms."""
        losses, slopes = self._slopes(parameters, batch)
        finite = losses.isfinite() & slopes.isfinite().all(0)
        if not bool(finite.all()):
            if not bool(finite.any()):
                return bounds.new_full((units.count if units else len(finite), 1), torch.inf)
            # 0 times infinity is not 0, so another row stands in for each that isn't finite, and counts for nothing.
            losses, slopes = self._slopes(parameters, take_finite(batch, finite))
            slopes = slopes.where(finite, torch.inf)
        averaged = (
            slopes if units is None else torch.stack([units.average(slope) for slope in slopes])
        )
        norms = (averaged.square().mean(0).sqrt() / (1 - self._tolerance))[:, None].to(bounds.dtype)
        factors = bounded_factors(clipper, norms, bounds)[:, 0]
        weights = factors if units is None else factors[units.slots] * units.weights
        weights = weights if units is not None or mask is None else weights * mask
        found = torch.autograd.grad(
            losses,
            list(parameters.values()),
            weights.to(losses.dtype),
            allow_unused=True,
            materialize_grads=True,
        )
        for name, gradient in zip(parameters, found, strict=True):
            into[name].add_(gradient.to(into[name].dtype))
        return norms

    def _slopes(
        self, parameters: Mapping[str, Tensor], batch: Any
    ) -> tuple[Tensor, Tensor]:  # -> [B], [r, B]
        """Give the losses, and each row's slope along every direction."""
        given = list(parameters.values())
        with torch.enable_grad():
            losses = self._per_sample_loss(self._model, batch)
            weights = torch.zeros_like(losses, requires_grad=True)
            sums = torch.autograd.grad(
                losses, given, weights, create_graph=True, allow_unused=True, materialize_grads=True
            )
            generator = torch.Generator(losses.device).manual_seed(
                int.from_bytes(os.urandom(8), "big", signed=True)
            )
            slopes = []
            for _ in range(self._count):
                directions = (
                    torch.randn(p.shape, generator=generator, dtype=p.dtype, device=p.device)
                    for p in given
                )
                along = torch.stack(
                    [
                        (value * direction).sum()
                        for value, direction in zip(sums, directions, strict=True)
                    ]
                ).sum()
                (slope,) = torch.autograd.grad(
                    along, weights, retain_graph=True, allow_unused=True, materialize_grads=True
                )
                slopes.append(slope.to(torch.promote_types(slope.dtype, torch.float32)))
        return losses, torch.stack(slopes)


def take_finite(batch: Any, finite: Tensor) -> Any:  # [B] of bool
    """Put the first row that is kept in place of every row that isn't."""
    chosen = torch.arange(len(finite), device=finite.device).where(finite, finite.int().argmax())
    return tree_map(
        lambda leaf: leaf[chosen] if isinstance(leaf, Tensor) and leaf.dim() else leaf, batch
    )
