"""A vision transformer: an image as a row of patches (Dosovitskiy et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dppipe.networks.encoder import Block


class VisionTransformer(nn.Module):
    """Embeddings of patches and places, blocks of self-attention, and a linear layer.

    A class token before the patches stands for the image, or the mean of the patches does.
    """

    def __init__(
        self,
        *,
        channels: int,
        size: tuple[int, int],
        patch: int,
        width: int,
        heads: int,
        layers: int,
        feedforward: int,
        dropout: float,
        class_token: bool,
        outputs: int,
    ) -> None:
        """Take sides that `patch` divides."""
        super().__init__()
        self.patches = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, width)) if class_token else None
        count = (size[0] // patch) * (size[1] // patch) + int(class_token)
        self.places = nn.Parameter(torch.randn(count, width) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, feedforward, dropout=dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)

    def forward(self, images: Tensor) -> Tensor:  # [B, channels, height, width] -> [B, outputs]
        """Return the outputs of each image."""
        states = self.patches(images).flatten(2).transpose(1, 2)
        if self.token is not None:
            tokens = self.token.expand(len(images), *self.token.shape)
            states = torch.cat([tokens, states], dim=1)
        states = self.dropout(states + self.places)
        for block in self.blocks:
            states = block(states)
        states = self.norm(states)
        whole = states.mean(dim=1) if self.token is None else states[:, 0]
        found: Tensor = self.head(whole)
        return found
