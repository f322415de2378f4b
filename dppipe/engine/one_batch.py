"""The clipped sum of a single batch, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from dppipe.engine.contracts import ClippedSum, Clips, PerSampleLoss
from dppipe.engine.engine import Engine
from dppipe.engine.units import Ids


def clipped_sum(
    model: nn.Module,
    per_sample_loss: PerSampleLoss,
    batch: Any,
    clipper: Clips,
    *,
    mask: Tensor | None = None,
    units: Ids | None = None,
    state: Mapping[str, Any] | None = None,
) -> ClippedSum:
    """Return the sum of the clipped per-sample gradients, and the norms before clipping.

    The parameters' `.grad` isn't changed.

    Example:
        >>> import torch
        >>> from dppipe.clipping import Flat
        >>> from dppipe.engine import clipped_sum
        >>> model = torch.nn.Linear(3, 1)
        >>> loss = lambda model, batch: model(batch[0]).squeeze(1).square()  # one for each row
        >>> found = clipped_sum(model, loss, (torch.randn(8, 3),), Flat(max_grad_norm=1.0))
        >>> found.norms.shape
        torch.Size([8, 1])
    """
    with Engine(model, per_sample_loss, clipper) as engine:
        sums = engine.zeros()
        norms = engine.accumulate(batch, sums, bounds=engine.bounds(state), mask=mask, units=units)
    return ClippedSum(sums, norms)
