"""Options of layers that aren't their defaults: norms and sums agree with the float64 loop for each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dppipe.clipping import Flat, Jl
from dppipe.engine import Engine

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
]


class FromIds(nn.Module):
    """A layer of whole numbers, which are made from the batch's own."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, rows):
        return self.inner((rows.abs() * 100).long() % 6)


class WeightedBag(nn.Module):
    """A bag whose lookups have weights of their own."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(6, 3, mode="sum")

    def forward(self, rows):
        return self.bag((rows.abs() * 100).long() % 6, per_sample_weights=rows)


class Attends(nn.Module):
    """Attention whose queries, keys and values are chosen among two sequences."""

    def __init__(self, which, **options):
        super().__init__()
        self.which = which
        self.attention = nn.MultiheadAttention(4, 2, **options)

    def forward(self, rows):
        # Sequence first: otherwise torch hands over three tensors, even where they are one.
        sequences = {"first": rows[:, :3].transpose(0, 1), "second": rows[:, 3:].transpose(0, 1)}
        mixed = self.attention(*[sequences[name] for name in self.which])[0]
        return mixed.transpose(0, 1)


class First(nn.Module):
    """A recurrent layer's outputs without its states."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, rows):
        return self.inner(rows)[0]


class BothWays(nn.Module):
    """One layer that is called with the rows first, and again with the rows second."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, rows):
        return self.layer(torch.tanh(self.layer(rows)).transpose(0, 1)).transpose(0, 1)


LAYERS = {
    "conv1d, same, even kernel": (lambda: nn.Conv1d(2, 3, 4, padding="same"), (2, 7)),
    "conv2d, same, even and odd kernel": (
        lambda: nn.Conv2d(2, 3, (2, 3), padding="same"),
        (2, 5, 4),
    ),
    "conv2d, same, dilation": (
        lambda: nn.Conv2d(2, 3, (2, 4), padding="same", dilation=(3, 1)),
        (2, 6, 5),
    ),
    "conv2d, valid": (lambda: nn.Conv2d(2, 3, 2, padding="valid"), (2, 4, 4)),
    "conv2d, dilation and stride by side": (
        lambda: nn.Conv2d(2, 4, (2, 3), stride=(2, 1), dilation=(1, 2), groups=2),
        (2, 6, 7),
    ),
    "conv2d, circular": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 4, 5)),
    "conv2d, reflect": (
        lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect"),
        (2, 4, 5),
    ),
    "conv3d": (lambda: nn.Conv3d(1, 2, (1, 2, 3), padding=(0, 1, 2), bias=False), (1, 2, 3, 4)),
    "transposed, output padding": (
        lambda: nn.ConvTranspose2d(
            2, 3, 3, stride=2, padding=1, output_padding=(1, 0), dilation=(1, 2)
        ),
        (2, 3, 4),
    ),
    "transposed, groups": (lambda: nn.ConvTranspose1d(4, 4, 2, groups=2, bias=False), (4, 5)),
    "bag, mean with padding": (lambda: FromIds(nn.EmbeddingBag(6, 3, padding_idx=2)), (5,)),
    "bag, sum with negative padding": (
        lambda: FromIds(nn.EmbeddingBag(6, 3, mode="sum", padding_idx=-1)),
        (5,),
    ),
    "bag, maximum": (lambda: FromIds(nn.EmbeddingBag(6, 3, mode="max")), (5,)),
    "bag, weights": (WeightedBag, (4,)),
    "embedding, padding": (lambda: FromIds(nn.Embedding(6, 3, padding_idx=3)), (5,)),
    "attention, values apart": (lambda: Attends(("first", "first", "second")), (6, 4)),
    "attention, keys apart": (lambda: Attends(("first", "second", "first")), (6, 4)),
    "attention, queries apart": (lambda: Attends(("first", "second", "second")), (6, 4)),
    "attention, biases of keys": (lambda: Attends(("first",) * 3, add_bias_kv=True), (6, 4)),
    "attention, zeros": (lambda: Attends(("first",) * 3, add_zero_attn=True), (6, 4)),
    "lstm, dropped between layers": (
        lambda: First(nn.LSTM(3, 4, num_layers=2, dropout=1.0, batch_first=True)),
        (5, 3),
    ),
    "gru, dropped between layers": (
        lambda: First(nn.GRU(3, 4, num_layers=2, dropout=1.0, batch_first=True)),
        (5, 3),
    ),
    "lstm, both directions": (
        lambda: First(
            nn.LSTM(3, 2, num_layers=2, bidirectional=True, bias=False, batch_first=True)
        ),
        (4, 3),
    ),
    "lstm, projected": (lambda: First(nn.LSTM(3, 4, proj_size=2, batch_first=True)), (4, 3)),
    "rnn": (lambda: First(nn.RNN(3, 4, batch_first=True)), (4, 3)),
    "layer norm, no bias": (lambda: nn.LayerNorm((3, 4), bias=False), (2, 3, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 3)),
    "instance norm": (lambda: nn.InstanceNorm1d(3, affine=True), (3, 5)),
    "rms norm over two": (lambda: nn.RMSNorm((2, 3)), (2, 2, 3)),
    "rectifier by channel": (lambda: nn.PReLU(3), (3, 4)),
    "rows in two dimensions": (BothWays, (3, 4)),
}


def made(name, rows):
    make, shape = LAYERS[name]
    torch.manual_seed(rows)
    model = make()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model, (torch.randn(rows, *shape),)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_with_options_agrees_with_the_loop(name, run, loop):
    model, batch = made(name, 4)
    result, _ = run(model, batch, Flat(max_grad_norm=1.0))
    loop(model, batch).agrees_with(result)


@pytest.mark.parametrize("name", LAYERS)
def test_units_of_a_layer_with_options_agree_with_the_loop(name, run, loop):
    model, batch = made(name, 6)
    units = [4, 4, 9, 9, 9, 7]
    result, _ = run(model, batch, Flat(max_grad_norm=0.5), units=units)
    loop(model, batch, bound=0.5, units=units).agrees_with(result)


def test_the_coarsest_type_of_a_model_decides_how_much_norms_are_raised():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2).double())
    with Engine(
        model, lambda model, rows: model[1](model[0](rows).double()).sum(1), Flat()
    ) as engine:
        assert engine.groups.unit == torch.finfo(torch.float32).eps / 2


def test_a_user_of_many_records_counts_for_one_bound_where_norms_are_estimated():
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False)
    row = torch.randn(1, 3)
    rows = row.expand(8, 3).clone()

    def loss(model, batch):
        return 1e3 * model(batch).sum(1)

    clipper = Jl(max_grad_norm=1.0, projections=8)
    with Engine(model, loss, clipper) as engine:
        sums = engine.zeros()
        engine.accumulate(rows, sums, bounds=engine.bounds(), units=[5] * 8)
    assert float(sums["weight"].norm()) <= 1.0 + 1e-6
