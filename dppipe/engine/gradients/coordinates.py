"""Gradients in the clipper's own coordinates, for the few that need more than norms (AdaClip).

Every gradient is formed and handed to `transform`, one example at a time; norms, factors, bounds and sums are then those of
what comes back. So the bound holds for the transformed gradients, whatever the transformation does.
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
    """Give every row's gradients in the clipper's coordinates."""
    formed = {name: found.dense() for name, found in gradients.items()}
    dense = {
        name: values.reshape(len(values), *parameters[name].shape)
        for name, values in formed.items()
    }
    changed: dict[str, Tensor] = torch.func.vmap(clipper.transform)(dense)
    if {name: value.shape for name, value in changed.items()} != {
        name: value.shape for name, value in dense.items()
    }:
        raise UsageError(
            "clipping: expected a gradient of the same names and shapes, got another. Fix transform()."
        )
    return {name: Dense(value) for name, value in changed.items()}
