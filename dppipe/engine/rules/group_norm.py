"""Group and instance normalisation: one scale and one shift for each channel."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.gradients.forms import Dense
from dppipe.engine.rules.base import (
    Example,
    Found,
    Rule,
    Unhandled,
    Use,
    autocast_wide,
    plain,
    wide,
)


def answer(
    use: Use,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Answer `F.group_norm`."""
    use.require_axis(0)
    rows, channels = input.shape[:2]
    size = input.numel() // (rows * channels)
    values = autocast_wide(input)
    output, mean, scale = torch.native_group_norm(
        values, plain(weight), plain(bias), rows, channels, size, num_groups, eps
    )

    def gradients(output: Tensor, inputs: Tensor, mean: Tensor, scale: Tensor) -> Found:
        shifts = channel_sums(wide(output))
        if use.trains(weight):
            products = channel_sums(wide(output), wide(inputs)).view(rows, num_groups, -1)
            centred = products - mean.unsqueeze(2) * shifts.view_as(products)
            yield weight, Dense((centred * scale.unsqueeze(2)).view(rows, channels))
        if use.trains(bias):
            yield bias, Dense(shifts)

    return use.tap(output, (input, mean, scale), gradients)


def channel_sums(left: Tensor, right: Tensor | None = None) -> Tensor:  # [B, C, ...] -> [B, C]
    """Sum a tensor, or the product of two, over all positions of each channel."""
    values = left if right is None else left * right
    return values.flatten(2).sum(2)


def instance_norm(
    use: Use,
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Answer `F.instance_norm`: a group norm with one channel in each group."""
    if not use_input_stats or running_mean is not None:
        raise Unhandled("an instance norm with running statistics")
    normalised: Tensor = use.call(
        F.group_norm, input, input.shape[1], weight=weight, bias=bias, eps=eps
    )
    return normalised


RULE = Rule(
    name="group_norm",
    functions=(F.group_norm,),
    answer=answer,
    examples=(
        Example(lambda: nn.GroupNorm(2, 6), lambda rows: (torch.randn(rows, 6, 3, 4) + 1,)),
        Example(lambda: nn.GroupNorm(3, 3), lambda rows: (torch.randn(rows, 3, 5),)),
        Example(
            lambda: nn.GroupNorm(2, 4),
            lambda rows: (torch.randn(rows, 4, 3, 5).to(memory_format=torch.channels_last),),
        ),
    ),
)
INSTANCE = Rule(
    name="instance_norm",
    functions=(F.instance_norm,),
    answer=instance_norm,
    examples=(
        Example(lambda: nn.InstanceNorm1d(3, affine=True), lambda rows: (torch.randn(rows, 3, 5),)),
        Example(
            lambda: nn.InstanceNorm2d(2, affine=True), lambda rows: (torch.randn(rows, 2, 3, 4),)
        ),
    ),
)
