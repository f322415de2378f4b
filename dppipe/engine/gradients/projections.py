"""Norms estimated from random projections, and the clipped sum by one weighted backward pass.

The slope of every row's loss along one random direction takes one pass: a backward pass is
differentiated with respect to the weights of its rows. The mean square of r slopes is the squared
norm times chi2_r / r. Only these numbers are held for each row. An estimate can be too low, so it
is raised by the clipper's tolerance; the clipper charges the probability that this isn't enough to
delta (`dppipe.clipping.jl`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dppipe.engine.bounds import bounded_factors
from dppipe.engine.contracts import Factors, PerSampleLoss
from dppipe.engine.units import Units


class Projections:
    """Clipped sums of a model by estimated norms.

    Guarantees:
    - Directions come from fresh entropy at each call, so no record can be crafted to evade them.
    - Norms and sums come from one forward pass, so dropout is the same in both.
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
        """Add the clipped sum to `into` and return the raised estimates of the norms."""
        losses, slopes = self._slopes(parameters, batch)
        finite = losses.isfinite() & slopes.isfinite().all(0)
        if not bool(finite.all()):
            if not bool(finite.any()):
                return bounds.new_full((units.count if units else len(finite), 1), torch.inf)
            # 0 times infinity isn't 0, so a finite row replaces each other row, with weight 0.
            losses, slopes = self._slopes(parameters, take_finite(batch, finite))
            slopes = slopes.where(finite, torch.inf)
        if units is not None:
            slopes = torch.stack([units.average(slope) for slope in slopes])
        estimates = slopes.square().mean(0).sqrt()
        norms = (estimates / (1 - self._tolerance))[:, None].to(bounds.dtype)
        weights = bounded_factors(clipper, norms, bounds)[:, 0]
        if units is not None:
            weights = weights[units.unit_of] * units.weights
        elif mask is not None:
            weights = weights * mask
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
        """Return the losses, and each row's slope along every direction."""
        values = list(parameters.values())
        with torch.enable_grad():
            losses = self._per_sample_loss(self._model, batch)
            weights = torch.zeros_like(losses, requires_grad=True)
            sums = torch.autograd.grad(
                losses,
                values,
                weights,
                create_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            seed = int.from_bytes(os.urandom(8), "big", signed=True)
            generator = torch.Generator(losses.device).manual_seed(seed)
            slopes = []
            for _ in range(self._count):
                along = _along_random_direction(sums, values, generator)
                (slope,) = torch.autograd.grad(
                    along, weights, retain_graph=True, allow_unused=True, materialize_grads=True
                )
                slopes.append(slope.to(torch.promote_types(slope.dtype, torch.float32)))
        return losses, torch.stack(slopes)


def _along_random_direction(
    sums: Sequence[Tensor], parameters: Sequence[Tensor], generator: torch.Generator
) -> Tensor:
    """Return the inner product of a gradient with one random direction."""
    products = []
    for value, like in zip(sums, parameters, strict=True):
        direction = torch.randn(
            like.shape, generator=generator, dtype=like.dtype, device=like.device
        )
        products.append((value * direction).sum())
    return torch.stack(products).sum()


def take_finite(batch: Any, finite: Tensor) -> Any:  # [B] of bool
    """Replace every row that isn't finite by the first one that is."""
    chosen = torch.arange(len(finite), device=finite.device).where(finite, finite.int().argmax())

    def take(leaf: Any) -> Any:
        return leaf[chosen] if isinstance(leaf, Tensor) and leaf.dim() else leaf

    return tree_map(take, batch)
