"""The models on which private steps are timed: the engine was tuned on five of the seven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Workload(NamedTuple):
    """A model with a batch, as one step of training sees them."""

    name: str
    title: str
    make: Callable[[], nn.Module]
    batch: Callable[[], Any]
    per_sample_loss: Callable[[nn.Module, Any], Tensor]
    tuned: bool = True
    """Whether the engine's kernels were chosen with this model in view."""


def classify(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Return the loss of one label for each row."""
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def tag(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Return the mean loss over a row's positions."""
    losses = F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten(), reduction="none")
    return losses.view_as(batch[1]).mean(1)


def mlp() -> nn.Module:
    """Make a perceptron with two hidden layers."""
    return nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )


def cnn() -> nn.Module:
    """The network of Papernot et al. 2021 for 28x28 images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


class WideBlock(nn.Module):
    """A residual block with normalisation before each convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(16, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.GroupNorm(16, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = None
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Run the layers."""
        active = F.relu(self.norm1(x))
        y = self.conv2(F.relu(self.norm2(self.conv1(active))))
        result: Tensor = y + (x if self.shortcut is None else self.shortcut(active))
        return result


def wide_resnet() -> nn.Module:
    """WRN-16-4 with group norm (De et al. 2022)."""
    blocks: list[nn.Module] = []
    channels = 16
    for width, stride in ((64, 1), (128, 2), (256, 2)):
        blocks += [WideBlock(channels, width, stride), WideBlock(width, width, 1)]
        channels = width
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1),
        *blocks,
        nn.GroupNorm(16, 256),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """Run the layers."""
        query, key, value = map(self._by_head, self.project(x).chunk(3, 2))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result

    def _by_head(self, part: Tensor) -> Tensor:
        return torch.unflatten(part, 2, (self.heads, -1)).transpose(1, 2)


class Layer(nn.Module):
    """One layer of a transformer."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size)
        self.attention = Attention(size, heads)
        self.norm2 = nn.LayerNorm(size)
        self.up = nn.Linear(size, 4 * size)
        self.down = nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        """Run the layers."""
        x = x + self.attention(self.norm1(x))
        result: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return result


class Transformer(nn.Module):
    """A small decoder; `head` predicts the next token at every position."""

    def __init__(
        self, words: int = 10_000, size: int = 256, layers: int = 4, positions: int = 128
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.positions = nn.Embedding(positions, size)
        self.layers = nn.Sequential(*(Layer(size, 4) for _ in range(layers)))
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, words)

    def forward(self, ids: Tensor) -> Tensor:
        """Run the layers."""
        places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        embedded = self.words(ids) + self.positions(places)
        result: Tensor = self.head(self.norm(self.layers(embedded)))
        return result


class Lora(nn.Module):
    """A frozen linear layer with a trainable low-rank one beside it (Hu et al. 2022)."""

    def __init__(self, layer: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Run the layers."""
        result: Tensor = self.layer(x) + self.up(self.down(x))
        return result


def lora_transformer() -> nn.Module:
    """Make a frozen transformer with trainable adapters in every layer."""
    model = Transformer().requires_grad_(False)
    for path, module in list(model.layers.named_modules()):
        if isinstance(module, nn.Linear):
            parent, _, name = path.rpartition(".")
            setattr(model.layers.get_submodule(parent), name, Lora(module))
    return model


class Tagger(nn.Module):
    """A recurrent tagger that reads both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8000, 128)
        self.memory = nn.LSTM(128, 256, batch_first=True, bidirectional=True)
        self.head = nn.Linear(512, 20)

    def forward(self, ids: Tensor) -> Tensor:
        """Run the layers."""
        result: Tensor = self.head(self.memory(self.words(ids))[0])
        return result


def images(rows: int, *shape: int) -> Callable[[], tuple[Tensor, Tensor]]:
    """Make rows of numbers with one of ten labels."""
    return lambda: (torch.randn(rows, *shape), torch.randint(0, 10, (rows,)))


def sequences(
    rows: int, length: int, words: int, labels: int
) -> Callable[[], tuple[Tensor, Tensor]]:
    """Make rows of tokens with a label at every position."""

    def batch() -> tuple[Tensor, Tensor]:
        ids = torch.randint(0, words, (rows, length))
        return ids, torch.randint(0, labels, (rows, length))

    return batch


TEXT = sequences(16, 128, 10_000, 10_000)

WORKLOADS = (
    Workload("a", "MLP 784-1024-1024-10, batch 256", mlp, images(256, 784), classify),
    Workload("b", "CNN of Papernot et al., batch 512", cnn, images(512, 1, 28, 28), classify),
    Workload("c", "WRN-16-4, group norm, batch 32", wide_resnet, images(32, 3, 32, 32), classify),
    Workload("d", "transformer, 4 layers of 256, batch 16 x 128", Transformer, TEXT, tag),
    Workload(
        "e",
        "logistic regression on 4000 features, batch 4096",
        lambda: nn.Linear(4000, 10),
        images(4096, 4000),
        classify,
    ),
    Workload(
        "f", "LSTM tagger, batch 32 x 64", Tagger, sequences(32, 64, 8000, 20), tag, tuned=False
    ),
    Workload(
        "g",
        "LoRA on the transformer of d, batch 16 x 128",
        lora_transformer,
        TEXT,
        tag,
        tuned=False,
    ),
)
