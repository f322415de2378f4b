"""Every layer with any of its options, in every precision: norms and sums agree with a loop over rows.

The loop is plain autograd, one row at a time: in float64, or under the same autocast. A layer without
a rule may be evaluated row by row or refused; it is never wrong.
"""

from __future__ import annotations

import copy
import os
from contextlib import nullcontext

import pytest
import torch
from engine.layer_draws import LAYERS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from dppipe.clipping import Flat
from dppipe.engine import Engine
from dppipe.engine.rules import RULES
from dppipe.errors import DppipeError

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
    pytest.mark.filterwarnings("ignore:Support for mismatched"),
]
BOUND = 0.5
CLIPPER = Flat(max_grad_norm=BOUND)
PRECISIONS = {"float32": (1e-3, 1e-5), "float64": (1e-9, 1e-9), "bf16-mixed": (0.1, 0.02)}
"""How far a norm or a sum may be off: as a share of what it could be at most, and beside that."""


class Model(nn.Module):
    """A layer behind a trained shift, used once or twice."""

    def __init__(self, layer, *, uses):
        super().__init__()
        self.layer = layer
        self.uses = uses
        self.shift = nn.Parameter(torch.tensor([0.1]))

    def forward(self, *inputs):
        total = 0
        for use in range(self.uses):
            changed = [self._changed(part, use) for part in inputs]
            found = self.layer(*changed).flatten(1)
            total = total + (1 + use) * found.to(torch.promote_types(found.dtype, torch.float32))
        return total

    def _changed(self, part, use):
        if not part.is_floating_point():
            return part.roll(use, -1) if part.dim() > 1 else part
        # Not an invariance of any normalisation, whose gradient would be rounding alone.
        return part / (1 + use) + self.shift * part.abs().sqrt()


def loss(model, batch):
    outputs = model(*batch)
    # Weighed by position, so that outputs in another order aren't the same.
    weights = 1 + torch.arange(outputs.shape[1]).to(outputs) / outputs.shape[1]
    return (torch.tanh(outputs) * weights).sum(1)


def gradients_by_row(model, batch, kept, context):
    """Return the flat gradient of each row, by plain autograd; zeros for a masked row."""
    found = []
    for row, keep in enumerate(kept):
        with context():
            value = loss(model, [part[row : row + 1] for part in batch]).sum()
        own = torch.autograd.grad(
            value, list(model.parameters()), allow_unused=True, materialize_grads=True
        )
        flat = torch.cat([gradient.to_dense().double().flatten() for gradient in own])
        found.append(flat * keep)
    sizes = sum(parameter.numel() for parameter in model.parameters())
    return torch.stack(found) if found else torch.zeros(0, sizes, dtype=torch.float64)


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


@pytest.mark.parametrize("kind", LAYERS)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(data=st.data())
def test_norms_and_sums_agree_with_the_loop(kind, data):
    torch.manual_seed(0)
    layer, inputs = LAYERS[kind][0](data.draw)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    model = Model(layer, uses=data.draw(st.integers(1, 2)))
    rows = data.draw(st.sampled_from([1, 3]))
    kept = [data.draw(st.booleans()) for _ in range(rows)]
    precision = data.draw(st.sampled_from(list(PRECISIONS)))
    batch = inputs(rows)
    wide = copy.deepcopy(model) if precision == "bf16-mixed" else copy.deepcopy(model).double()
    if precision == "float64":
        model = model.double()

    def like(model):
        dtype = model.shift.dtype
        return tuple(part.to(dtype) if part.is_floating_point() else part for part in batch)

    kernels = {}
    for rule in RULES:
        if rule.name in LAYERS[kind][1] and rule.kernels:
            kernels[rule.name] = data.draw(st.sampled_from(rule.kernels))
    forced = kernels if data.draw(st.booleans()) else None
    context = autocast if precision == "bf16-mixed" else nullcontext
    try:
        with context(), Engine(model, loss, CLIPPER, kernels=forced) as engine:
            sums = engine.zeros()
            mask = None if all(kept) else torch.tensor(kept)
            norms = engine.accumulate(like(model), sums, bounds=engine.bounds(), mask=mask)
    except DppipeError:
        return
    expected = gradients_by_row(wide, like(wide), kept, context)
    share, beside = PRECISIONS[precision]
    agree(norms, sums, expected, share=share, beside=beside)


def agree(norms, sums, expected, *, share, beside):
    found = norms[:, 0].double()
    whole = expected.norm(dim=1)
    assert (found >= whole * (1 - share) - beside).all(), (found, whole)
    assert (found <= whole * (1 + share) + beside).all(), (found, whole)
    factors = (BOUND / whole).clamp(max=1).nan_to_num(0.0)
    clipped = (factors[:, None] * expected).sum(0)
    total = torch.cat([part.double().flatten() for part in sums.values()])
    most = float((factors * whole).sum())
    assert float((total - clipped).norm()) <= 2 * share * most + 2 * beside * len(found)


def test_every_rule_is_drawn():
    drawn = {rule for _, rules in LAYERS.values() for rule in rules}
    assert drawn == {rule.name for rule in RULES}
