"""Whole models agree with the float64 loop: a CNN, a GroupNorm ResNet and a transformer with tied
embeddings.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.clipping import Flat, Layerwise


def cross_entropy(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def next_token(model, batch):
    logits = model(batch[0])
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), batch[0][:, 1:], reduction="none").mean(
        1
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(54, 16), nn.Tanh(), nn.Linear(16, 5),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norm1, self.conv1 = (
            nn.GroupNorm(2, inputs),
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
        )
        self.norm2, self.conv2 = (
            nn.GroupNorm(2, outputs),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
        )
        self.shortcut = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            if stride > 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.relu(self.norm1(x), inplace=True))
        return self.shortcut(x) + self.conv2(F.relu(self.norm2(y), inplace=True))


def resnet():
    blocks = [Block(4, 4, 1), Block(4, 8, 2), Block(8, 8, 1)]
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, 1, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )


class Transformer(nn.Module):
    """A decoder whose output layer is its own embedding table, by a second name or by use of the
    weight itself.
    """

    def __init__(self, *, batch_first=True, by_name=True):
        super().__init__()
        self.batch_first, self.by_name = batch_first, by_name
        self.table, self.positions = nn.Embedding(13, 8), nn.Parameter(torch.randn(1, 9, 8) * 0.1)
        layer = nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, batch_first=batch_first, norm_first=True
        )
        self.layers = nn.ModuleList(
            [layer, nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)]
        )
        self.head = nn.Linear(8, 13, bias=False)
        if by_name:
            self.head.weight = self.table.weight
        else:
            del self.head

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids) + self.positions[:, : ids.shape[1]]
        x = x if self.batch_first else x.transpose(0, 1)
        mask = nn.Transformer.generate_square_subsequent_mask(
            ids.shape[1], device=ids.device, dtype=x.dtype
        )
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        x = x if self.batch_first else x.transpose(0, 1)
        return self.head(x) if self.by_name else x @ self.table.weight.T


def images(channels, size):
    return lambda rows: (torch.randn(rows, channels, size, size), torch.randint(0, 5, (rows,)))


def tokens(rows):
    return (torch.randint(0, 13, (rows, 9)),)


MODELS = [
    pytest.param(cnn, images(1, 20), cross_entropy, id="cnn"),
    pytest.param(resnet, images(3, 8), cross_entropy, id="resnet"),
    pytest.param(Transformer, tokens, next_token, id="transformer"),
    pytest.param(
        lambda: Transformer(by_name=False), tokens, next_token, id="transformer-tied-by-use"
    ),
    pytest.param(
        lambda: Transformer(batch_first=False), tokens, next_token, id="transformer-sequence-first"
    ),
]


@pytest.mark.parametrize(("make", "inputs", "loss"), MODELS)
@pytest.mark.parametrize("rows", [1, 5, 9])
def test_whole_models_agree_with_the_loop(make, inputs, loss, rows, run, loop):
    """Nine rows of nine positions: rows and positions can't be told apart by their number."""
    torch.manual_seed(rows)
    model, batch = make(), inputs(rows)
    result, engine = run(model, batch, Flat(max_grad_norm=1.0), loss=loss)
    loop(model, batch, loss=loss).agrees_with(result)
    assert not engine.layout.fallback
    assert engine.layout.functional is None


@pytest.mark.parametrize(("make", "inputs", "loss"), MODELS)
def test_whole_models_agree_by_layer_and_unit(make, inputs, loss, run, loop):
    torch.manual_seed(0)
    model, batch = make(), inputs(6)
    units = [0, 0, 1, 1, 2, 2]
    result, engine = run(model, batch, Layerwise(max_grad_norm=1.0), loss=loss, units=units)
    groups = lambda name: engine.groups.names[engine.groups.column[name]]  # noqa: E731
    expected = loop(
        model, batch, loss=loss, units=units, bound=float(engine.bounds()[0]), groups=groups
    )
    expected.agrees_with(result, norm_tolerance=1e-5)
