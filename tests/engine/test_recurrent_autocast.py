"""Recurrent layers under autocast: the engine's forward pass is torch's, in its types and values."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from dppipe.clipping import Flat
from dppipe.engine import clipped_sum

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

OPTIONS = {
    "defaults": {},
    "no bias": {"bias": False},
    "two layers, both ways": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True},
}


def outputs_of(layer, rows):
    """Return outputs and last states, rows first."""
    first = layer.batch_first
    outputs, last = layer(rows if first else rows.transpose(0, 1))
    states = last if isinstance(last, tuple) else (last,)
    return outputs if first else outputs.transpose(0, 1), *(s.transpose(0, 1) for s in states)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_the_forward_pass_under_autocast_is_torchs(kind, options, dtype):
    torch.manual_seed(0)
    layer = kind(3, 4, **OPTIONS[options])
    rows = torch.randn(5, 6, 3).to(dtype)
    seen = []

    def total(layer, rows):
        found = outputs_of(layer, rows)
        seen.append([part.detach() for part in found])
        return sum(part.float().flatten(1).sum(1) for part in found)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        clipped_sum(layer, total, rows, Flat(max_grad_norm=0.5))
        expected = [part.detach() for part in outputs_of(layer, rows)]
    whole = [found for found in seen if len(found[0]) == len(rows)]
    # A layer without a rule is evaluated row by row, by torch.
    found = whole[-1] if whole else [torch.cat(part) for part in zip(*seen[-5:], strict=True)]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)
        if kind is nn.GRU and options != "batch first":  # one product with its bias, as in torch
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_gradients_under_autocast_are_near_those_of_torch(kind):
    """The loop over rows under the same autocast, up to half precision's rounding."""
    torch.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=True)
    rows = torch.randn(5, 6, 3)

    def total(layer, rows):
        return sum(part.float().square().flatten(1).sum(1) for part in outputs_of(layer, rows))

    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = clipped_sum(layer, total, rows, Flat(max_grad_norm=1e6))
        layer.zero_grad()
        total(layer, rows).sum().backward()
    for name, parameter in layer.named_parameters():
        scale = parameter.grad.abs().max()
        torch.testing.assert_close(
            result.sums[name] / scale, parameter.grad / scale, rtol=0.02, atol=0.02
        )
