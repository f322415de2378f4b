"""Residual networks with group normalisation and standardised weights.

Batch normalisation would mix the examples of a batch; group normalisation (Wu and He 2018) sees one
example. Standardised weights (Qiao et al. 2019) keep the size of what a convolution returns, which
helps clipped and noisy training (De et al. 2022).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class StandardisedConv2d(nn.Conv2d):
    """A convolution whose weights have mean 0 and variance 1/inputs for each output channel."""

    def forward(self, input: Tensor) -> Tensor:  # [B, in, h, w] -> [B, out, h', w']
        """Return the convolution with the standardised weights."""
        axes = (1, 2, 3)
        centred = self.weight - self.weight.mean(dim=axes, keepdim=True)
        # The mean square, and so the variance, as `centred` has mean 0.
        spread = centred.square().sum(dim=axes, keepdim=True)
        weight = centred * torch.rsqrt(spread + 1e-8)
        return F.conv2d(input, weight, self.bias, self.stride, self.padding)


class Layers:
    """Makes the layers of a network: convolutions, and norms of a number of groups."""

    def __init__(self, *, groups: int, standardise: bool) -> None:
        self._groups = groups
        self._conv = StandardisedConv2d if standardise else nn.Conv2d

    def conv(self, channels: int, out: int, *, side: int = 3, stride: int = 1) -> nn.Conv2d:
        """Return a convolution that keeps the size, but for its stride."""
        return self._conv(
            channels, out, kernel_size=side, stride=stride, padding=side // 2, bias=False
        )

    def norm(self, channels: int) -> nn.GroupNorm:
        """Return a norm of the stated number of groups, or of as many as divide the channels."""
        return nn.GroupNorm(math.gcd(self._groups, channels), channels)


class PostBlock(nn.Module):
    """Two convolutions, each before its norm, added to what came in (He et al. 2016a)."""

    def __init__(self, layers: Layers, channels: int, out: int, *, stride: int) -> None:
        super().__init__()
        self.first = layers.conv(channels, out, stride=stride)
        self.first_norm = layers.norm(out)
        self.second = layers.conv(out, out)
        self.second_norm = layers.norm(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels != out:
            self.shortcut = layers.conv(channels, out, side=1, stride=stride)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the block's output."""
        found = F.relu(self.first_norm(self.first(inputs)))
        found = self.second_norm(self.second(found))
        return F.relu(found + self.shortcut(inputs))


class PreBlock(nn.Module):
    """Two convolutions, each after its norm, added to what came in (He et al. 2016b)."""

    def __init__(self, layers: Layers, channels: int, out: int, *, stride: int) -> None:
        super().__init__()
        self.first_norm = layers.norm(channels)
        self.first = layers.conv(channels, out, stride=stride)
        self.second_norm = layers.norm(out)
        self.second = layers.conv(out, out)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels != out:
            self.shortcut = layers.conv(channels, out, side=1, stride=stride)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the block's output."""
        found = self.first(F.relu(self.first_norm(inputs)))
        found = self.second(F.relu(self.second_norm(found)))
        added: Tensor = found + self.shortcut(inputs)
        return added


def residual_network(
    layers: Layers,
    block: type[PostBlock] | type[PreBlock],
    *,
    inputs: int,
    stem: int,
    width: int,
    blocks: int,
    outputs: int,
) -> nn.Sequential:
    """Return three stages of blocks, with `width`, twice and four times as many channels.

    The second and third stage halve height and width.
    """
    parts: list[nn.Module] = [layers.conv(inputs, stem)]
    if block is PostBlock:
        parts += [layers.norm(stem), nn.ReLU()]
    channels = stem
    for stage in range(3):
        for place in range(blocks):
            out = width * 2**stage
            stride = 2 if stage and not place else 1
            parts.append(block(layers, channels, out, stride=stride))
            channels = out
    if block is PreBlock:
        parts += [layers.norm(channels), nn.ReLU()]
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, outputs)]
    return nn.Sequential(*parts)
