"""Layers with any of their options: what hypothesis draws for `test_every_option.py`.

Each function draws the options of one kind of layer, and returns a module that computes `[rows, ...]`
and the inputs of so many rows. Every constructor's options are drawn, those without a rule too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor, nn

Drawn = tuple[nn.Module, Callable[[int], tuple[Tensor, ...]]]
SMALL = st.integers(1, 3)


class Calls(nn.Module):
    """Calls a function with a layer and the inputs: for layers that aren't called with rows alone."""

    def __init__(self, layer: nn.Module, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.layer = layer
        self.call = call

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.call(self.layer, *inputs)


def _floats(*shape: int) -> Callable[[int], tuple[Tensor, ...]]:
    return lambda rows: (torch.randn(rows, *shape) + 0.3,)


def _ids(entries: int, *shape: int) -> Callable[[int], tuple[Tensor, ...]]:
    return lambda rows: (torch.randint(0, entries, (rows, *shape)),)


def _each(draw: Any, dims: int, low: int, high: int) -> tuple[int, ...]:
    return tuple(draw(st.integers(low, high)) for _ in range(dims))


def linear(draw: Any) -> Drawn:
    inputs = draw(SMALL)
    layer = nn.Linear(inputs, draw(SMALL), bias=draw(st.booleans()))
    return layer, _floats(*draw(st.lists(SMALL, max_size=2)), inputs)


ZEROS = st.just("zeros")
OTHERS = st.sampled_from(["circular", "replicate", "reflect"])


def conv(draw: Any, padding: Any = "numbers", modes: st.SearchStrategy[str] = ZEROS) -> Drawn:
    dims = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 2))
    size = _each(draw, dims, 3, 6)
    window = _each(draw, dims, 1, 3)
    dilation = _each(draw, dims, 1, 2)
    stride: Any = 1 if padding == "same" else _each(draw, dims, 1, 2)
    if padding == "numbers":
        padding = _each(draw, dims, 0, 2)
    edges = padding if isinstance(padding, tuple) else (0,) * dims
    for at in range(dims):
        reach = dilation[at] * (window[at] - 1)
        assume(padding == "same" or size[at] + 2 * edges[at] > reach)
        assume(padding != "same" or reach < 2 * size[at])
    inputs = groups * draw(st.integers(1, 2))
    made = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1](
        inputs,
        groups * draw(st.integers(1, 2)),
        window,
        stride,
        padding,
        dilation,
        groups,
        draw(st.booleans()),
        padding_mode=draw(modes),
    )
    return made, _floats(inputs, *size)


def conv_transpose(draw: Any) -> Drawn:
    dims = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 2))
    stride = _each(draw, dims, 1, 3)
    dilation = _each(draw, dims, 1, 2)
    extra = tuple(draw(st.integers(0, max(stride[at], dilation[at]) - 1)) for at in range(dims))
    inputs = groups * draw(st.integers(1, 2))
    made = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[dims - 1](
        inputs,
        groups * draw(st.integers(1, 2)),
        _each(draw, dims, 2, 3),
        stride,
        draw(st.integers(0, 1)),
        output_padding=extra,
        groups=groups,
        bias=draw(st.booleans()),
        dilation=dilation,
    )
    return made, _floats(inputs, *_each(draw, dims, 2, 4))


def embedding(draw: Any) -> Drawn:
    padding = draw(st.none() | st.integers(-5, 4))
    rescales = draw(st.sampled_from(["nothing", "nothing", "max_norm", "scale_grad_by_freq"]))
    options = {
        "max_norm": 0.8 if rescales == "max_norm" else None,
        "norm_type": draw(st.sampled_from([1.0, 2.0])),
        "scale_grad_by_freq": rescales == "scale_grad_by_freq",
        "sparse": False,
    }
    inputs = _ids(5, *draw(st.lists(st.integers(1, 4), max_size=2)))
    layer = nn.Embedding(5, draw(SMALL), padding, **options)
    if draw(st.booleans()):  # a function is given the number as it is, a layer counts it from 0
        return Calls(
            layer, lambda own, ids: F.embedding(ids, own.weight, padding, **options)
        ), inputs
    return layer, inputs


def embedding_bag(draw: Any) -> Drawn:
    mode = draw(st.sampled_from(["sum", "mean", "max"]))
    padding = draw(st.integers(-3, 2) | st.none())
    weighs = mode == "sum" and draw(st.booleans())
    layer = nn.EmbeddingBag(3, draw(SMALL), mode=mode, padding_idx=padding)
    length = draw(st.integers(2, 5))

    def inputs(rows: int) -> tuple[Tensor, ...]:
        shares = (torch.randn(rows, length),) if weighs else ()
        return torch.randint(0, 3, (rows, length)), *shares

    given = padding if draw(st.booleans()) else layer.padding_idx

    def call(own: Any, ids: Tensor, shares: Tensor | None = None) -> Tensor:
        shares = None if shares is None else shares.to(own.weight)
        return F.embedding_bag(
            ids, own.weight, mode=mode, per_sample_weights=shares, padding_idx=given
        )

    return Calls(layer, call), inputs


EPSILON = st.sampled_from([1e-5, 0.5])


def layer_norm(draw: Any) -> Drawn:
    shape = draw(st.lists(st.integers(2, 3), min_size=1, max_size=2))
    layer = nn.LayerNorm(shape, draw(EPSILON), draw(st.booleans()), draw(st.booleans()))
    return layer, _floats(*draw(st.lists(SMALL, max_size=2)), *shape)


def rms_norm(draw: Any) -> Drawn:
    shape = draw(st.lists(st.integers(2, 3), min_size=1, max_size=2))
    layer = nn.RMSNorm(shape, draw(st.none() | EPSILON), draw(st.booleans()))
    return layer, _floats(*draw(st.lists(SMALL, max_size=2)), *shape)


def group_norm(draw: Any) -> Drawn:
    groups = draw(st.integers(1, 3))
    channels = groups * draw(SMALL)
    layer = nn.GroupNorm(groups, channels, draw(EPSILON), draw(st.booleans()))
    return layer, _floats(channels, *draw(st.lists(SMALL, min_size=1, max_size=2)), 2)


def instance_norm(draw: Any) -> Drawn:
    dims = draw(st.integers(1, 3))
    channels = draw(SMALL)
    kind = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[dims - 1]
    return kind(channels, draw(EPSILON), affine=draw(st.booleans())), _floats(
        channels, *_each(draw, dims, 2, 3)
    )


def prelu(draw: Any) -> Drawn:
    channels = draw(SMALL)
    layer = nn.PReLU(draw(st.sampled_from([1, channels])), init=draw(st.sampled_from([0.25, -1.0])))
    return layer, _floats(channels, *draw(st.lists(SMALL, max_size=2)))


def attention(draw: Any) -> Drawn:
    first = draw(st.booleans())
    weighted = draw(st.booleans())
    apart = draw(st.booleans())
    masks = draw(st.sampled_from(["none", "bool", "float", "by row"]))
    padded = draw(st.booleans())
    extra = draw(st.sampled_from(["", "", "", "add_bias_kv", "add_zero_attn"]))
    assume(not extra or masks != "by row")  # no rule, and a mask that isn't cut by rows
    options = {"kdim": 3, "vdim": 2} if apart and draw(st.booleans()) else {}
    layer = nn.MultiheadAttention(
        4,
        2,
        bias=draw(st.booleans()),
        batch_first=first,
        add_bias_kv=extra == "add_bias_kv",
        add_zero_attn=extra == "add_zero_attn",
        **options,
    )
    length = draw(st.integers(2, 3))
    averages = draw(st.booleans())

    def call(own: Any, x: Tensor) -> Tensor:
        value = x[..., : own.vdim] if apart else x
        parts = (x, x[..., : own.kdim] if apart else x, value)
        later = torch.ones(length, length).triu(1).bool()
        mask: Tensor | None = None
        if masks == "bool":
            mask = later
        elif masks == "float":
            mask = torch.where(later, -1.5, 0.2).to(own.out_proj.weight.dtype)
        elif masks == "by row":
            mask = (later & (x[:, None, :, 0] > 0)).repeat_interleave(2, 0)
        hidden = (x[:, :, 1] > 0) & (torch.arange(length) > 0) if padded else None
        if hidden is not None and masks == "float":  # of one type, and added to each other
            hidden = torch.where(hidden, -2.0, 0.3).to(own.out_proj.weight.dtype)
        turned = parts if first else tuple(part.transpose(0, 1) for part in parts)
        mixed, weights = own(
            *turned,
            key_padding_mask=hidden,
            attn_mask=mask,
            need_weights=weighted,
            average_attn_weights=averages,
        )
        mixed = (mixed if first else mixed.transpose(0, 1)).flatten(1)
        return mixed if weights is None else torch.cat([mixed, weights.flatten(1)], 1)

    return Calls(layer, call), _floats(length, 4)


def recurrent(draw: Any, kind: Any) -> Drawn:
    first = draw(st.booleans())
    trains = draw(st.booleans())
    options: dict[str, Any] = {
        "num_layers": draw(st.integers(1, 2)),
        "bias": draw(st.booleans()),
        "batch_first": first,
        "bidirectional": draw(st.booleans()),
    }
    if options["num_layers"] > 1:  # at 1 nothing is left to chance, and in evaluation at any value
        options["dropout"] = draw(st.sampled_from([0.0, 1.0] if trains else [0.0, 0.5]))
    if kind is nn.LSTM and draw(st.integers(0, 3)) == 0:
        options["proj_size"] = 2
    if kind is nn.RNN:
        options["nonlinearity"] = draw(st.sampled_from(["tanh", "relu"]))
    layer = kind(2, 3, **options).train(trains)

    def call(own: Any, x: Tensor) -> Tensor:
        outputs, last = own(x if first else x.transpose(0, 1))
        outputs = outputs if first else outputs.transpose(0, 1)
        found = [outputs.flatten(1)]
        for state in last if isinstance(last, tuple) else (last,):
            found.append(state.transpose(0, 1).flatten(1))
        return torch.cat(found, 1)

    return Calls(layer, call), _floats(draw(st.integers(1, 3)), 2)


class Free(nn.Module):
    """Parameters that are used by operators."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(size, size))
        self.scale = nn.Parameter(torch.randn(size))
        self.one = nn.Parameter(torch.randn(()))


OPERATORS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "matmul": lambda own, x: x @ own.matrix,
    "transposed": lambda own, x: x @ own.matrix.t(),
    "torch.matmul": lambda own, x: torch.matmul(x, own.matrix.T),
    "scaled": lambda own, x: x * own.scale,
    "shifted": lambda own, x: own.scale + x,
    "subtracted": lambda own, x: own.scale - x,
    "divided": lambda own, x: x / (2 + own.scale.square()),
    "one number": lambda own, x: own.one * x + own.one,
}


def operators(draw: Any) -> Drawn:
    size = draw(SMALL)
    call = OPERATORS[draw(st.sampled_from(list(OPERATORS)))]
    return Calls(Free(size), call), _floats(*draw(st.lists(SMALL, max_size=2)), size)


LAYERS: dict[str, tuple[Callable[[Any], Drawn], tuple[str, ...]]] = {
    "linear": (linear, ("linear",)),
    "conv": (conv, ("conv",)),
    "conv, same": (partial(conv, padding="same"), ("conv",)),
    "conv, valid": (partial(conv, padding="valid"), ("conv",)),
    "conv, other edges": (partial(conv, modes=OTHERS), ("conv",)),
    "conv_transpose": (conv_transpose, ("conv_transpose",)),
    "embedding": (embedding, ("embedding",)),
    "embedding_bag": (embedding_bag, ("embedding_bag",)),
    "layer_norm": (layer_norm, ("layer_norm",)),
    "rms_norm": (rms_norm, ("rms_norm",)),
    "group_norm": (group_norm, ("group_norm",)),
    "instance_norm": (instance_norm, ("instance_norm",)),
    "prelu": (prelu, ("prelu",)),
    "attention": (attention, ("attention",)),
    "lstm": (partial(recurrent, kind=nn.LSTM), ("lstm",)),
    "gru": (partial(recurrent, kind=nn.GRU), ("gru",)),
    "rnn": (partial(recurrent, kind=nn.RNN), ()),
    "operators": (operators, ("matmul", "broadcast")),
}
"""How each kind of layer is drawn, and the rules that it is about."""
