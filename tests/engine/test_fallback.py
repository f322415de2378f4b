"""What has no rule is evaluated row by row, exactly, and the layout says which module and why."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn

from dppipe.clipping import Flat


class Times(torch.autograd.Function):
    """A product that a function mode can't see."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient * weight, (gradient * x).sum((0, 1))


class OutOfSight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        return Times.apply(x, self.weight)


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("btd,de->bte", x, self.weight)


class Branching(nn.Module):
    """A forward pass that looks at values, which vmap can't."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        sign = 1.0 if x.shape[0] > 1 or float(x.detach().sum()) > -1e9 else -1.0
        return sign * torch.einsum("btd,de->bte", x, self.weight)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = (x.new_zeros(len(x), 3), x.new_zeros(len(x), 3))
        outputs = []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            outputs.append(state[0])
        return torch.stack(outputs, 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.RNN(3, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        lengths = torch.full((len(x),), x.shape[1])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


class Folded(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.reshape(-1, 3)).view_as(x)


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(3, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x)


class FrozenNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4).eval()

    def train(self, mode: bool = True):
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Model(nn.Module):
    """Something without a rule between two layers that have one."""

    def __init__(self, middle):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(3, 3), middle, nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.middle(torch.tanh(self.first(x)))))


FALLING = [OutOfSight, Einsum, Branching, Cells, Recurrent, Packed, Folded, Bilinear, FrozenNorm]


@pytest.mark.parametrize("middle", FALLING)
def test_a_module_without_a_rule_is_exact_and_alone(middle, run, loop):
    for rows in (1, 4, 5):
        torch.manual_seed(rows)
        model, batch = Model(middle()), (torch.randn(rows, 4, 3),)
        result, engine = run(model, batch, Flat(max_grad_norm=1.0))
        loop(model, batch).agrees_with(result)
        assert len(engine.layout.fallback) == 1
        assert next(iter(engine.layout.fallback)).startswith("middle")
        assert engine.layout.functional is None


class WeightNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class MergedAdapter(nn.Module):
    """A low-rank adapter that is added to a frozen weight before use."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3).requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.layer.weight + self.up @ self.down, self.layer.bias)


class Adapter(nn.Module):
    """A low-rank adapter beside a frozen layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3).requires_grad_(False)
        self.down, self.up = nn.Linear(3, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.up(self.down(x))


class Reused(nn.Module):
    """Layers that are used several times, and one that isn't used at all."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.conv, self.unused = (
            nn.Linear(3, 3),
            nn.LayerNorm(3),
            nn.Conv1d(4, 4, 3, padding=1),
            nn.Linear(2, 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.norm(torch.tanh(self.layer(x)) + x) + self.conv(x)
        return x


class Slices(nn.Module):
    """Overlapping parts of one parameter."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight[:3], self.bias[:3]) * F.linear(
            x, self.weight[2:], self.bias[2:]
        )


class Tokens(nn.Module):
    """A class token, positions and a gate as bare parameters of a module that has others inside."""

    def __init__(self):
        super().__init__()
        self.token, self.positions = (
            nn.Parameter(torch.randn(1, 1, 3)),
            nn.Parameter(torch.randn(1, 9, 3)),
        )
        self.gate, self.layer = nn.Parameter(torch.randn(3)), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = (
            torch.cat([self.token.expand(len(x), -1, -1), x], 1)
            + self.positions[:, : x.shape[1] + 1]
        )
        return self.layer(x) * torch.sigmoid(self.gate)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        y.relu_()
        y = y + 1
        y += 2
        return y + x


@pytest.mark.parametrize(
    "middle", [WeightNorm, MergedAdapter, Adapter, Reused, Slices, Tokens, InPlace]
)
def test_uses_of_parameters_need_no_fallback(middle, run, loop):
    for rows in (1, 4, 9):
        torch.manual_seed(rows)
        model, batch = Model(middle()), (torch.randn(rows, 4, 3),)
        model, batch = model.double(), (batch[0].double(),)
        result, engine = run(model, batch, Flat(max_grad_norm=1.0))
        loop(model, batch).agrees_with(result, norm_tolerance=1e-9, sum_tolerance=1e-9)
        assert not engine.layout.fallback
        assert engine.layout.functional is None


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)


def test_activation_checkpointing_is_exact(run, loop):
    torch.manual_seed(0)
    model, batch = Model(Checkpointed()), (torch.randn(4, 4, 3),)
    result, engine = run(model, batch, Flat(max_grad_norm=1.0))
    loop(model, batch).agrees_with(result)
    assert engine.layout.functional == "activation checkpointing"
