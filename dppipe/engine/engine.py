"""The clipped sum of per-sample gradients: the door of the engine.

`clipped_sum` is one call; `Engine` is prepared once for a fit and adds clipped sums onto buffers that the caller owns, such as
views of one flat buffer that already holds the noise. `.grad` and the user's module stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from dppipe.engine.bounds import bounded_factors
from dppipe.engine.contracts import ClippedSum, Clips, PerSampleLoss
from dppipe.engine.functional import FunctionalGradients
from dppipe.engine.groups import bounds_tensor, make_groups, trainable
from dppipe.engine.losses import batch_rows
from dppipe.engine.units import make_units

Mode = Literal["auto", "functional"]


class Engine:
    """Clipped sums of one model, loss and clipper, for as long as a fit lasts.

    Guarantee: the sum over any disjoint pieces of a logical batch is the sum of one gradient per example (or per unit), each of
    norm at most its group's bound in every group; nothing else of the batch reaches the buffers.
    """

    def __init__(self, model: nn.Module, per_sample_loss: PerSampleLoss, clipper: Clips, *, mode: Mode = "auto") -> None:
        self.model = model
        self.clipper = clipper
        self.mode = mode
        self.parameters = trainable(model)
        self.groups = make_groups(clipper, self.parameters)
        self._gradients = FunctionalGradients(model, per_sample_loss)

    def __enter__(self) -> Self:
        """Start a fit."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End a fit: whatever was put on the user's module is taken off."""

    def bounds(self, state: Mapping[str, Any] | None = None) -> Tensor:  # -> [G]
        """Give the clipper's bounds in this state as a tensor on the model's device."""
        return bounds_tensor(self.clipper, self.groups, state, self._like())

    def zeros(self) -> dict[str, Tensor]:
        """Give an empty sum for every trainable parameter, float32 or wider."""
        return {
            name: torch.zeros(p.shape, dtype=torch.promote_types(p.dtype, torch.float32), device=p.device)
            for name, p in self.parameters.items()
        }

    def accumulate(
        self,
        batch: Any,
        into: Mapping[str, Tensor],
        *,
        bounds: Tensor,  # [G]
        mask: Tensor | None = None,  # [B] of bool
        units: Tensor | Sequence[int] | None = None,  # [B] of int
    ) -> Tensor:  # -> [B, G]
        """Add the batch's clipped sums onto `into` and give each row's norms; masked rows count for nothing."""
        rows = batch_rows(batch)
        if not rows or not self.parameters:
            return bounds.new_zeros(rows, len(self.groups.names))
        gradients = self._gradients(self.parameters, batch)
        with torch.no_grad():
            layout = make_units(range(rows) if units is None else units, mask, like=bounds)
            averages = {
                name: torch.zeros(layout.count, *value.shape[1:], dtype=bounds.dtype, device=bounds.device).index_add_(
                    0, layout.slots, _weighted(value.to(bounds.dtype), layout.weights)
                )
                for name, value in gradients.items()
            }
            squares = [(name, torch.linalg.vector_norm(v.flatten(1), dim=1).square()) for name, v in averages.items()]
            norms = self.groups.combine(squares, like=squares[0][1])
            factors = bounded_factors(self.clipper, norms, bounds)
            for name, value in averages.items():
                factor = factors[:, self.groups.column[name]]
                into[name].add_(_weighted(value, factor).sum(0))
            return norms[layout.slots] * (layout.weights > 0)[:, None]

    def _like(self) -> Tensor:
        return next(iter(self.parameters.values()), torch.zeros(()))


def _weighted(rows: Tensor, weights: Tensor) -> Tensor:  # [B, ...], [B] -> [B, ...]
    """Scale rows; a row of weight 0 becomes zero even where it holds an infinity."""
    shaped = weights.view(-1, *[1] * (rows.dim() - 1))
    return torch.where(shaped > 0, rows * shaped, 0)


def clipped_sum(
    model: nn.Module,
    per_sample_loss: PerSampleLoss,
    batch: Any,
    clipper: Clips,
    *,
    mask: Tensor | None = None,
    units: Tensor | Sequence[int] | None = None,
    state: Mapping[str, Any] | None = None,
) -> ClippedSum:
    """Give the sum of the clipped per-sample gradients and the norms before clipping; `.grad` is untouched."""
    with Engine(model, per_sample_loss, clipper) as engine:
        sums = engine.zeros()
        norms = engine.accumulate(batch, sums, bounds=engine.bounds(state), mask=mask, units=units)
    return ClippedSum(sums, norms)
