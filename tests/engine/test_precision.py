"""Half-precision forward passes give float32 norms and sums; channels-last and float64 give the
same as ever.
"""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dppipe.clipping import Flat
from dppipe.engine import clipped_sum
from dppipe.engine.gradients.norms import rounding_of
from dppipe.engine.groups import make_groups

# Without it oneDNN's bf16 kernels can stop with an illegal instruction on machines that advertise
# AMX but don't grant it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


class Mixed(nn.Module):
    """One of each: what autocast runs in half precision and what it doesn't."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.attention, self.conv = (
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
            nn.Conv1d(8, 6, 3),
        )
        self.group, self.gate, self.head = (
            nn.GroupNorm(2, 6),
            nn.Parameter(torch.randn(6)),
            nn.Linear(6, 3),
        )

    def forward(self, ids):
        x = self.group(self.conv(self.attention(self.norm(self.table(ids))).transpose(1, 2)))
        return self.head(x.mean(2) * self.gate)


def loss(model, batch):
    return F.cross_entropy(model(batch[0]).float(), batch[1], reduction="none")


def batch(rows=6):
    return torch.randint(0, 11, (rows, 9)), torch.randint(0, 3, (rows,))


def test_a_bfloat16_forward_gives_float32_norms_and_sums():
    torch.manual_seed(0)
    model, rows = Mixed(), batch()
    full = clipped_sum(model, loss, rows, Flat(max_grad_norm=0.5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = clipped_sum(model, loss, rows, Flat(max_grad_norm=0.5))
    assert half.norms.dtype == torch.float32
    assert all(total.dtype == torch.float32 for total in half.sums.values())
    assert torch.allclose(half.norms, full.norms, rtol=0.05)
    for name, total in full.sums.items():
        assert torch.allclose(half.sums[name], total, atol=0.05), name


NORMALISATIONS = {
    "layer norm": (lambda: nn.LayerNorm(6), (4, 6)),
    "group norm": (lambda: nn.GroupNorm(2, 6), (6, 4)),
    "instance norm": (lambda: nn.InstanceNorm1d(6, affine=True), (6, 4)),
}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_a_normalisation_of_bfloat16_under_autocast_is_computed_in_float32(name):
    torch.manual_seed(0)
    make, shape = NORMALISATIONS[name]
    model, rows = make(), torch.randn(5, *shape).bfloat16()
    seen = []

    def noted(model, rows):
        seen.append(model(rows))
        return torch.tanh(seen[-1].float()).flatten(1).sum(1)

    expected = clipped_sum(model, noted, rows.float(), Flat(max_grad_norm=0.5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = clipped_sum(model, noted, rows, Flat(max_grad_norm=0.5))
    torch.testing.assert_close(seen[-1].detach(), model(rows.float()).detach())
    torch.testing.assert_close(found.norms, expected.norms)
    torch.testing.assert_close(found.sums, expected.sums)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_under_autocast_are_near_those_in_full_precision(kind):
    torch.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    rows = torch.randn(5, 6, 3)

    def total(layer, rows):
        outputs, last = layer(rows)
        states = last if isinstance(last, tuple) else (last,)
        found = [outputs.float().flatten(1)]
        found += [state.float().transpose(0, 1).flatten(1) for state in states]
        return torch.cat(found, 1).sum(1)

    expected = clipped_sum(layer, total, rows, Flat(max_grad_norm=0.5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = clipped_sum(layer, total, rows, Flat(max_grad_norm=0.5))
    torch.testing.assert_close(found.norms, expected.norms, rtol=0.05, atol=0.05)
    torch.testing.assert_close(found.sums, expected.sums, rtol=0.05, atol=0.05)


def test_a_bfloat16_sum_keeps_small_contributions():
    """256 equal contributions add up exactly in float32 and get stuck in bfloat16."""
    model = nn.Linear(1, 1, bias=False)
    rows = torch.full((1000, 1), 2.0**-10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = clipped_sum(
            model, lambda m, b: m(b).float().squeeze(1), rows, Flat(max_grad_norm=1.0)
        )
    assert float(result.sums["weight"]) == pytest.approx(1000 * 2.0**-10, rel=1e-6)


def test_bfloat16_parameters_have_float32_sums():
    model = nn.Sequential(nn.Linear(4, 3)).to(torch.bfloat16)
    result = clipped_sum(
        model,
        lambda m, b: m(b).float().square().sum(1),
        torch.randn(5, 4, dtype=torch.bfloat16),
        Flat(),
    )
    assert all(total.dtype == torch.float32 for total in result.sums.values())
    assert result.norms.dtype == torch.float32


def test_channels_last_gives_the_same():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.GroupNorm(2, 6),
        nn.ReLU(),
        nn.Conv2d(6, 4, 3, stride=2),
        nn.Flatten(),
        nn.LazyLinear(3),
    )
    images, labels = torch.randn(5, 3, 9, 9), torch.randint(0, 3, (5,))
    model(images)
    expected = clipped_sum(model, loss, (images, labels), Flat())
    model = model.to(memory_format=torch.channels_last)
    found = clipped_sum(model, loss, (images.to(memory_format=torch.channels_last), labels), Flat())
    assert torch.allclose(found.norms, expected.norms, rtol=1e-5)
    assert all(
        torch.allclose(found.sums[name], total, atol=1e-6) for name, total in expected.sums.items()
    )


@pytest.mark.parametrize("order", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_norms_of_mixed_weights_are_raised_by_the_coarsest_of_them(order):
    weights = {str(place): torch.zeros(3, dtype=dtype) for place, dtype in enumerate(order)}
    assert make_groups(Flat(), weights).unit == rounding_of(torch.float32).unit


class Weighing(nn.Module):
    """Attention whose weights are used, so that no fused kernel computes them."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 2, batch_first=True)  # 2 heads of width 6

    def forward(self, x):
        mixed, weights = self.attention(x, x, x, need_weights=True, average_attn_weights=False)
        return mixed.flatten(1).square().sum(1) + weights.flatten(1).square().sum(1)


def test_attention_whose_weights_are_used_agrees_with_autograd():
    torch.manual_seed(0)
    model = Weighing().double()
    x = torch.randn(4, 5, 12, dtype=torch.float64)
    found = clipped_sum(model, lambda model, batch: model(batch), x, Flat(max_grad_norm=1e9))
    whole = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    for (name, _), expected in zip(model.named_parameters(), whole, strict=True):
        torch.testing.assert_close(found.sums[name].double(), expected, rtol=1e-6, atol=1e-6)
