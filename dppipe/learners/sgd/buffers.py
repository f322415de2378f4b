"""The buffer of a step's sums: one tensor, which is summed over ranks and broadcast at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Buffers(NamedTuple):
    """One flat buffer, and views of its parts."""

    flat: Tensor
    gradient: Tensor
    """The part that the gradients of all parameters share."""
    sums: dict[str, Tensor]
    """A view of it for each parameter."""
    counts: Tensor
    """The rest: one value for each statistic."""
    canaries: Tensor
    """One value for each coordinate that an audit has reserved, behind the gradient."""
    released: Tensor
    """The gradient and the reserved coordinates: noise makes no difference between them."""


def zeros_of(
    parameters: Mapping[str, nn.Parameter], *, counts: int = 0, canaries: int = 0
) -> Buffers:
    """Return a buffer of zeros, float32 or wider."""
    first = next(iter(parameters.values()), None)
    device = first.device if first is not None else torch.device("cpu")
    dtype = torch.float32
    sizes: list[int] = []
    for parameter in parameters.values():
        dtype = torch.promote_types(dtype, parameter.dtype)
        sizes.append(parameter.numel())
    size = sum(sizes)
    end = size + canaries
    flat = torch.zeros(end + counts, dtype=dtype, device=device)
    parts = torch.split(flat[:size], sizes)
    sums: dict[str, Tensor] = {}
    for (name, parameter), part in zip(parameters.items(), parts, strict=True):
        sums[name] = part.view_as(parameter)
    return Buffers(flat, flat[:size], sums, flat[end:], flat[size:end], flat[:end])
