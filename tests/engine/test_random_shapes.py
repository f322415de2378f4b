"""Random shapes: what a layer's size, stride or dilation is makes no difference to being right."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

from dppipe.clipping import Flat
from dppipe.engine.rules.conv_kernels import KERNELS

few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
small = st.integers(1, 5)
rows = st.integers(1, 6)


def check(run, loop, model, batch, **kernels):
    """In float64, so that a difference is a mistake and never rounding."""
    model = model.double()
    batch = tuple(part.double() if part.is_floating_point() else part for part in batch)
    result, engine = run(model, batch, Flat(max_grad_norm=1.0), kernels=kernels)
    loop(model, batch).agrees_with(result, norm_tolerance=1e-9, sum_tolerance=1e-9)
    assert not engine.layout.fallback


@few
@given(
    rows,
    st.lists(small, max_size=3),
    small,
    small,
    st.booleans(),
    st.sampled_from(["ghost", "dense"]),
)
def test_linear_layers(run, loop, count, middle, inputs, outputs, bias, kernel):
    torch.manual_seed(0)
    check(
        run,
        loop,
        nn.Linear(inputs, outputs, bias=bias),
        (torch.randn(count, *middle, inputs),),
        linear=kernel,
    )


@pytest.mark.parametrize("kernel", KERNELS)
@few
@given(st.data())
def test_convolutions(run, loop, kernel, data):
    torch.manual_seed(0)
    dims, groups, count = (
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(1, 2)),
        data.draw(rows),
    )

    def each(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(dims))

    size, window, stride, padding, dilation = (
        each(1, 7),
        each(1, 3),
        each(1, 3),
        each(0, 2),
        each(1, 2),
    )
    assume(
        all(
            s + 2 * p > d * (w - 1)
            for s, p, d, w in zip(size, padding, dilation, window, strict=True)
        )
    )
    inputs, outputs = groups * data.draw(st.integers(1, 3)), groups * data.draw(st.integers(1, 3))
    layer = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1](
        inputs, outputs, window, stride, padding, dilation, groups
    )
    check(run, loop, layer, (torch.randn(count, inputs, *size),), conv=kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@few
@given(st.data())
def test_transposed_convolutions(run, loop, kernel, data):
    torch.manual_seed(0)
    dims, groups, count = (
        data.draw(st.integers(1, 2)),
        data.draw(st.integers(1, 2)),
        data.draw(rows),
    )

    def each(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(dims))

    size, window, stride, dilation = each(2, 5), each(2, 3), each(1, 3), each(1, 2)
    extra = tuple(
        data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)
    )
    inputs, outputs = groups * data.draw(st.integers(1, 2)), groups * data.draw(st.integers(1, 2))
    layer = (nn.ConvTranspose1d, nn.ConvTranspose2d)[dims - 1](
        inputs, outputs, window, stride, 1, output_padding=extra, groups=groups, dilation=dilation
    )
    check(run, loop, layer, (torch.randn(count, inputs, *size),), conv_transpose=kernel)


@few
@given(
    rows,
    st.lists(st.integers(1, 6), max_size=2),
    st.integers(1, 4),
    small,
    st.none() | st.integers(0, 0),
)
def test_embeddings(run, loop, count, middle, entries, size, padding):
    torch.manual_seed(0)
    check(
        run,
        loop,
        nn.Embedding(entries, size, padding_idx=padding),
        (torch.randint(0, entries, (count, *middle)),),
    )


@few
@given(rows, st.lists(small, max_size=2), st.lists(st.integers(2, 4), min_size=1, max_size=2))
def test_normalisations(run, loop, count, middle, shape):
    torch.manual_seed(0)
    check(run, loop, nn.LayerNorm(shape), (torch.randn(count, *middle, *shape),))
    check(run, loop, nn.RMSNorm(shape), (torch.randn(count, *middle, *shape),))
    check(run, loop, nn.GroupNorm(1, shape[0]), (torch.randn(count, shape[0], *middle, 3),))


@few
@given(
    rows,
    small,
    st.integers(1, 3),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([nn.LSTM, nn.GRU]),
)
def test_recurrent_layers(run, loop, count, steps, size, layers, both, first, started, kind):
    torch.manual_seed(0)
    sides = layers * (2 if both else 1)
    levels = torch.arange(1.0, sides * size + 1).view(sides, 1, size).double()

    class Outputs(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = kind(2, size, layers, batch_first=first, bidirectional=both)

        def forward(self, x):
            states = ()
            if started:  # from another state for each row, layer and direction
                hidden = torch.tanh(levels * x[:, 0, :1])
                states = ((hidden, hidden / 2) if kind is nn.LSTM else hidden,)
            outputs = self.layer(x if first else x.transpose(0, 1), *states)[0]
            return outputs if first else outputs.transpose(0, 1)

    check(run, loop, Outputs(), (torch.randn(count, steps, 2),))


HIDDEN = {
    "nothing": lambda x: None,
    "later positions": lambda x: torch.ones(x.shape[1], x.shape[1]).triu(1).bool(),
    "some later positions of each row": lambda x: (
        (x[:, None, :, 0] > 0) & torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    ).repeat_interleave(2, 0),
}
"""What attention of two heads may not look at, as its mask; the first position is never hidden."""


@few
@given(rows, small, st.sampled_from(list(HIDDEN)), st.booleans(), st.booleans(), st.booleans())
def test_attention_behind_masks(run, loop, count, length, hidden, padded, soft, weighted):
    torch.manual_seed(0)

    def shaped(mask, like):
        return torch.where(mask, -1.5, 0.0).to(like) if soft and mask is not None else mask

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            padding = (x[:, :, 1] > 0) & (torch.arange(length) > 0) if padded else None
            return self.attention(
                x,
                x,
                x,
                key_padding_mask=shaped(padding, x),
                attn_mask=shaped(HIDDEN[hidden](x), x),
                need_weights=weighted,
            )[0]

    check(run, loop, Masked(), (torch.randn(count, length, 4),))
