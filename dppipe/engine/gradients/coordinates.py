"""Gradients in the clipper's own coordinates, for the few that need more than norms (AdaClip).

Every gradient is formed and passed to the clipper's `transform`, one example at a time. Norms,
factors, bounds and sums are then those of the result. So the bound holds for the transformed
gradients, whatever the transformation does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dppipe.engine.gradients.forms import Dense, Gradients
from dppipe.errors import UsageError


def transformed(
    clipper: Any, gradients: Mapping[str, Gradients], parameters: Mapping[str, Tensor]
) -> dict[str, Gradients]:
    """Return every row's gradients in the clipper's coordinates."""
    dense = {}
    for name, found in gradients.items():
        values = found.dense()
        dense[name] = values.reshape(len(values), *parameters[name].shape)
    changed: dict[str, Tensor] = torch.func.vmap(clipper.transform)(dense)
    if _shapes(changed) != _shapes(dense):
        raise UsageError(
            "clipping: expected a gradient of the same names and shapes, got another. "
            "Fix transform()."
        )
    return {name: Dense(value) for name, value in changed.items()}


def _shapes(values: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in values.items()}
