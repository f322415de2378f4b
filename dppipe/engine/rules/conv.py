"""Convolutions and their transposes in one to three dimensions, with all their options.

The gradient of a transposed convolution's weight is that of an ordinary one with input and output
gradient exchanged, so both are one case here. Read next: `conv_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.gradients.forms import Dense
from dppipe.engine.rules.base import Example, Found, Rule, Use, plain, wide
from dppipe.engine.rules.conv_costs import kernel_costs
from dppipe.engine.rules.conv_geometry import Geometry
from dppipe.engine.rules.conv_kernels import KERNELS

_FORWARD = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
_TRANSPOSED = {F.conv_transpose1d: 1, F.conv_transpose2d: 2, F.conv_transpose3d: 3}

Sizes = int | tuple[int, ...]


def forward(
    use: Use,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Answer `F.conv1d`, `F.conv2d` and `F.conv3d`."""
    dims = _FORWARD[use.function]
    if isinstance(padding, str):
        if padding == "same":
            input = _pad(input, weight, _each(dilation, dims))
        padding = 0
    geometry = Geometry(_each(stride, dims), _each(padding, dims), _each(dilation, dims), groups)
    output = use.function(input, weight.detach(), plain(bias), stride, padding, dilation, groups)
    return _tap(use, output, input, weight, bias, geometry, exchange=False)


def transposed(
    use: Use,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Answer `F.conv_transpose1d`, `F.conv_transpose2d` and `F.conv_transpose3d`."""
    dims = _TRANSPOSED[use.function]
    geometry = Geometry(_each(stride, dims), _each(padding, dims), _each(dilation, dims), groups)
    output = use.function(
        input, weight.detach(), plain(bias), stride, padding, output_padding, groups, dilation
    )
    return _tap(use, output, input, weight, bias, geometry, exchange=True)


def _tap(
    use: Use,
    output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    geometry: Geometry,
    *,
    exchange: bool,
) -> Tensor:
    use.require_axis(0)

    def gradients(gradient: Tensor, input: Tensor) -> Found:
        gradient = wide(gradient)
        input = wide(input)
        if use.trains(weight):
            exact = geometry
            large = input
            small = gradient
            if exchange:
                exact, large = geometry.exact(gradient, input, weight)
                small = input
            kernel = use.choose(weight, kernel_costs(exact, large.shape, small.shape, weight.shape))
            yield weight, KERNELS[kernel](exact, large, small, weight.detach())
        if use.trains(bias):
            yield bias, Dense(gradient.flatten(2).sum(2))

    return use.tap(output, (input,), gradients)


def _each(sizes: Sizes, dims: int) -> tuple[int, ...]:
    """Return one size for each spatial dimension."""
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return given * dims if len(given) == 1 else given


def _pad(input: Tensor, weight: Tensor, dilation: tuple[int, ...]) -> Tensor:
    """Pad so that the output is as large as the input, the odd position last."""
    sides: list[int] = []
    for i in reversed(range(len(dilation))):
        span = dilation[i] * (weight.shape[i + 2] - 1)
        sides += [span // 2, span - span // 2]
    return F.pad(input, sides)


def _example(layer: Callable[..., nn.Module], *shape: int, **options: Any) -> Example:
    return Example(lambda: layer(shape[0], 4, **options), lambda rows: (torch.randn(rows, *shape),))


RULE = Rule(
    name="conv",
    functions=tuple(_FORWARD),
    answer=forward,
    kernels=tuple(KERNELS),
    examples=(
        _example(nn.Conv1d, 3, 8, kernel_size=3, stride=2, padding=1),
        _example(nn.Conv1d, 2, 7, kernel_size=4, dilation=2, padding="same"),
        _example(nn.Conv2d, 3, 6, 5, kernel_size=3, bias=False),
        _example(
            nn.Conv2d,
            2,
            7,
            8,
            kernel_size=(3, 2),
            stride=(2, 3),
            padding=(2, 1),
            dilation=(1, 2),
            groups=2,
        ),
        _example(nn.Conv2d, 2, 5, 5, kernel_size=3, padding=1, padding_mode="circular"),
        _example(nn.Conv2d, 3, 4, 4, kernel_size=1, stride=2),
        _example(nn.Conv3d, 2, 4, 5, 4, kernel_size=2, stride=(1, 2, 1), padding=1),
    ),
)
TRANSPOSED = Rule(
    name="conv_transpose",
    functions=tuple(_TRANSPOSED),
    answer=transposed,
    kernels=tuple(KERNELS),
    examples=(
        _example(nn.ConvTranspose1d, 3, 5, kernel_size=4, stride=3, padding=1, output_padding=2),
        _example(nn.ConvTranspose2d, 2, 3, 4, kernel_size=3, stride=2, dilation=2, groups=2),
        _example(nn.ConvTranspose3d, 2, 3, 2, 3, kernel_size=2, bias=False),
    ),
)
