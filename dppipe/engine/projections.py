"""Norms that are estimated from random projections, and the clipped sum by one weighted backward pass.

The derivative of every row's loss along one random direction is one forward pass; the mean square of `r` of them is the squared
norm times chi2_r / r. Nothing is held for each row but these numbers. An estimate can be too low, so what comes out is raised by
the clipper's tolerance, and the chance that this isn't enough is the clipper's to pay for (`dppipe.clipping.jl`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dppipe.engine.bounds import bounded_factors
from dppipe.engine.contracts import Factors, PerSampleLoss
from dppipe.engine.units import Units


class _BatchLoss(nn.Module):
    """The losses of a batch as a module, so that `functional_call` can put other parameters into the model."""

    def __init__(self, model: nn.Module, per_sample_loss: PerSampleLoss) -> None:
        super().__init__()
        self.model = model
        self.per_sample_loss = per_sample_loss

    def forward(self, batch: Any) -> Tensor:
        return self.per_sample_loss(self.model, batch)


class Projections:
    """Clipped sums of a model by estimated norms.

    Guarantee: directions come from fresh entropy at each call, so no record can be made to hide from them; every pass of a call
    sees the same dropout, so the norms are those of the gradients that are summed.
    """

    def __init__(self, model: nn.Module, per_sample_loss: PerSampleLoss, clipper: Any) -> None:
        self._module = _BatchLoss(model, per_sample_loss)
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
        values = {name: parameter.detach() for name, parameter in parameters.items()}
        seed = int(torch.randint(2**62, ()))
        norms = self._norms(values, batch, units, seed=seed)[:, None].to(bounds.dtype)
        factors = bounded_factors(clipper, norms, bounds)[:, 0]
        weights = factors if units is None else factors[units.slots] * units.weights
        if units is None and mask is not None:
            weights = weights * mask
        if not bool((weights > 0).any()):
            return norms
        finite = self._only_finite(batch, weights)
        leaves = {name: value.requires_grad_() for name, value in values.items()}
        with torch.enable_grad():
            losses = self._losses(leaves, finite, seed=seed)
            total = (losses * weights.to(losses.dtype)).sum()
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
        for name, gradient in zip(leaves, found, strict=True):
            into[name].add_(gradient.to(into[name].dtype))
        return norms

    def _norms(self, values: dict[str, Tensor], batch: Any, units: Units | None, *, seed: int) -> Tensor:  # -> [B or U]
        device = next(iter(values.values())).device
        generator = torch.Generator(device).manual_seed(int.from_bytes(os.urandom(8), "big", signed=True))
        total = torch.zeros((), device=device)
        for _ in range(self._count):
            directions = {
                name: torch.randn(value.shape, generator=generator, dtype=value.dtype, device=device)
                for name, value in values.items()
            }
            slopes = torch.func.jvp(self._losses_of(batch, seed=seed), (values,), (directions,))[1]
            slopes = slopes.to(torch.promote_types(slopes.dtype, torch.float32))
            total = total + (slopes if units is None else units.average(slopes)).square()
        return (total / self._count).sqrt() / (1 - self._tolerance)

    def _only_finite(self, batch: Any, weights: Tensor) -> Any:
        """Put the row of greatest weight in place of those of weight 0: they may be infinite, and 0 times infinity is not 0."""
        chosen = torch.arange(len(weights), device=weights.device).where(weights > 0, weights.argmax())
        return tree_map(lambda leaf: leaf[chosen] if isinstance(leaf, Tensor) and leaf.dim() else leaf, batch)

    def _losses_of(self, batch: Any, *, seed: int) -> Callable[[dict[str, Tensor]], Tensor]:
        return lambda values: self._losses(values, batch, seed=seed)

    def _losses(self, values: Mapping[str, Tensor], batch: Any, *, seed: int) -> Tensor:
        named = {f"model.{name}": value for name, value in values.items()}
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            losses: Tensor = torch.func.functional_call(self._module, named, (batch,))
        return losses
