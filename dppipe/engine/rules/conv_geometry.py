"""The geometry of a convolution: how its window moves over the input, and the patches under it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Geometry:
    """How a convolution's window moves; `groups` counts channel groups."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def weight_gradient(
        self, inputs: Tensor, outputs: Tensor, weight: Tensor, *, groups: int | None = None
    ) -> Tensor:
        """Return the gradient of a weight of this shape, summed over rows."""
        output_padding = [0] * len(self.stride)
        count = self.groups if groups is None else groups
        found: Tensor
        _, found, _ = torch.ops.aten.convolution_backward(
            outputs,
            inputs,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            output_padding,
            count,
            [False, True, False],
        )
        return found

    def exact(self, large: Tensor, small: Tensor, weight: Tensor) -> tuple[Geometry, Tensor]:
        """Pad or cut the large map to the exact positions of the small map.

        So the output padding makes no difference.
        """
        sides: list[int] = []
        for i in reversed(range(len(self.stride))):
            span = self.dilation[i] * (weight.shape[i + 2] - 1) + 1
            reach = self.stride[i] * (small.shape[i + 2] - 1) + span
            sides += [self.padding[i], reach - self.padding[i] - large.shape[i + 2]]
        return replace(self, padding=(0,) * len(self.padding)), F.pad(large, sides)

    def padded(self, inputs: Tensor) -> Tensor:
        """Return the inputs with their padding."""
        if not any(self.padding):
            return inputs
        sides: list[int] = []
        for size in reversed(self.padding):
            sides += [size, size]
        return F.pad(inputs, sides)

    def unfold(
        self, inputs: Tensor, weight: Tensor, positions: Sequence[int]
    ) -> Tensor:  # -> [B, groups, T, k * C / groups]
        """Return the patch under the window at every position.

        Channels come last, so that neighbours in memory stay together.
        """
        dims = len(self.stride)
        patches = self.padded(inputs).movedim(1, -1).contiguous()
        for i, size in enumerate(weight.shape[2:]):
            dilation = self.dilation[i]
            windows = patches.unfold(i + 1, dilation * (size - 1) + 1, self.stride[i])
            patches = windows[..., ::dilation].narrow(i + 1, 0, positions[i])
        # split: [B, *positions, groups, C / groups, *window]
        split = torch.unflatten(patches, 1 + dims, (self.groups, -1))
        order = (0, 1 + dims, *range(1, 1 + dims), *range(3 + dims, 3 + 2 * dims), 2 + dims)
        return split.permute(order).reshape(len(inputs), self.groups, math.prod(positions), -1)

    def split_outputs(self, outputs: Tensor) -> Tensor:  # [B, p, ...] -> [B, groups, T, p / groups]
        """Return the output gradients position by position."""
        return torch.unflatten(outputs.flatten(2), 1, (self.groups, -1)).transpose(2, 3)
