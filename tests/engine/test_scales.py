"""No row exceeds its bound, however small or large the numbers that its gradient is made of.

Each row's share of the sum is measured by itself: all other rows are masked, and what is left in
the sums is that row's.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dppipe.clipper_abilities import first_state, in_state
from dppipe.clipping import AdaClip, Automatic, Flat, Global, Jl, Layerwise, Psac
from dppipe.engine import Engine
from dppipe.engine.bounds import enforce_bounds
from dppipe.engine.gradients.forms import Outer, Total
from dppipe.engine.gradients.norms import raise_norms, rounding_of, row_squares
from dppipe.engine.groups import make_groups
from dppipe.engine.rules import RULES
from dppipe.engine.rules.embedding import Lookups

SLACK = 1e-5
"""What docs/clipping.md states."""
INPUTS = (1e-30, 1e-23, 1e-9, 1.0, 1e12, 1e18)
OUTPUTS = (1e-30, 1e-12, 1.0, 1e12, 1e18, 1e30)
GRID = tuple(itertools.product(INPUTS, OUTPUTS))
FEW = (
    (1e-30, 1e30),
    (1e-23, 1e18),
    (1e-19, 1e19),
    (1e-9, 1e9),
    (1.0, 1.0),
    (1.0, 1e-30),
    (1e18, 1e-18),
    (1e18, 1e18),
)
CASES = [
    pytest.param(rule, example, kernel, id=f"{rule.name}-{i}-{kernel or 'direct'}")
    for rule in RULES
    for i, example in enumerate(rule.examples)
    for kernel in (rule.kernels or (None,))
]
ROWS = 3


def weighted(model, batch):
    """A loss whose output gradients are given numbers."""
    *inputs, weights = batch
    return (model(*inputs).flatten(1) * weights).sum(1)


def share(engine, batch):
    """Return the size of what the first row adds to the clipped sums, in each group."""
    sums = engine.zeros()
    engine.accumulate(batch, sums, bounds=engine.bounds(), mask=torch.arange(ROWS) == 0)
    found = torch.zeros(len(engine.groups.names), dtype=torch.float64)
    for name, total in sums.items():
        found[engine.groups.column[name]] += total.double().abs().pow(engine.order).sum()
    return found.pow(1 / engine.order)


def assert_within(engine, model, inputs, *, scales):
    """Check the first row's share at every scale of inputs and output gradients."""
    weights = torch.randn_like(model(*inputs).flatten(1))
    for input_scale, output_scale in scales:
        scaled = [part * input_scale if part.is_floating_point() else part for part in inputs]
        ratios = share(engine, (*scaled, weights * output_scale)) / engine.bounds()
        assert (ratios <= 1 + SLACK).all(), (input_scale, output_scale, ratios)


@pytest.mark.parametrize(("rule", "example", "kernel"), CASES)
def test_every_kernel_keeps_the_bound_at_every_scale(rule, example, kernel):
    torch.manual_seed(0)
    model, inputs = example.make(), example.inputs(ROWS)
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, std=0.5)
        parameter.requires_grad_(
            "bias" not in name
        )  # a bias alone can make up for a norm that is too low
    with Engine(
        model, weighted, Flat(max_grad_norm=1e-7), kernels={rule.name: kernel} if kernel else {}
    ) as engine:
        assert_within(
            engine,
            model,
            inputs,
            scales=GRID if inputs[0].is_floating_point() else [(1.0, scale) for scale in OUTPUTS],
        )
        ordinary = (
            share(engine, (*inputs, torch.randn_like(model(*inputs).flatten(1)))) / engine.bounds()
        )
        assert ordinary > 0.999, (
            "a gradient of ordinary size is to be clipped to the bound, not below it"
        )


@pytest.mark.parametrize("kernel", ["ghost", "dense"])
def test_layers_with_biases_keep_the_bound_at_every_scale(kernel):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    with Engine(model, weighted, Flat(max_grad_norm=1e-7), kernels={"linear": kernel}) as engine:
        assert_within(engine, model, (torch.randn(ROWS, 3, 6),), scales=GRID)


CLIPPERS = [
    Flat(max_grad_norm=1e-7),
    Flat(max_grad_norm=1e-3),
    Flat(max_grad_norm=1e6),
    Layerwise(max_grad_norm=0.3),
    Automatic(max_grad_norm=0.2),
    Automatic(max_grad_norm=0.2, variant="auto_v"),
    Automatic(max_grad_norm=1e9, variant="auto_v"),
    Psac(max_grad_norm=0.2),
    Global(max_grad_norm=0.2, threshold=1.0),
]


class Two(nn.Module):
    """A layer with many positions and one with one, both without bias."""

    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(6, 5, bias=False), nn.Linear(5, 4, bias=False)

    def forward(self, x):
        return self.head(self.mix(x).mean(1))


@pytest.mark.parametrize(
    "clipper", CLIPPERS, ids=lambda clipper: f"{clipper.kind}-{clipper.max_grad_norm:g}"
)
@pytest.mark.parametrize(
    "options", [{}, {"order": 1}, {"mode": "functional"}], ids=["norms", "sizes", "functional"]
)
def test_every_clipper_keeps_its_bounds_at_every_scale(clipper, options):
    torch.manual_seed(0)
    model, x = Two(), torch.randn(ROWS, 3, 6)
    with Engine(model, weighted, clipper, kernels={"linear": "ghost"}, **options) as engine:
        assert_within(engine, model, (x,), scales=FEW)


def test_a_clipper_with_coordinates_of_its_own_keeps_its_bound_at_every_scale():
    torch.manual_seed(0)
    model, x = Two(), torch.randn(ROWS, 3, 6)
    clipper = AdaClip(max_grad_norm=0.1)
    with Engine(model, weighted, clipper) as engine:
        bound, weights, settled = (
            engine.bounds(),
            torch.randn(ROWS, 4),
            in_state(clipper, first_state(clipper, engine.groups.sizes)),
        )
        for input_scale, output_scale in GRID:
            sums, one = engine.zeros(), torch.tensor([True, False, False])
            engine.accumulate(
                (x * input_scale, weights * output_scale),
                sums,
                bounds=bound,
                mask=one,
                clipper=settled,
            )
            total = sum(float(value.double().square().sum()) for value in sums.values()) ** 0.5
            assert total <= float(bound) * (1 + SLACK), (input_scale, output_scale)


def assert_not_low(squares, formed):
    """Compare norms, raised as the engine raises them, with those of gradients that were formed in
    float64.
    """
    found = raise_norms(
        squares.sqrt(), largest=formed[0].numel(), unit=rounding_of(torch.float32).unit
    )
    exact = formed.double().flatten(1).norm(dim=1)
    safe = ~found.isfinite() | (found >= exact) | (exact < 1e-12)
    assert safe.all(), (found, exact)


@pytest.fixture(params=[False, True], ids=["gradual underflow", "flushed to zero"])
def flushed(request):
    """Run with and without numbers below 1e-38."""
    if not torch.set_flush_denormal(request.param):
        pytest.skip("this processor doesn't flush")
    yield
    torch.set_flush_denormal(False)


def of_any_size(*shape, seed):
    """Make positions whose sizes differ by dozens of orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.rand(*shape[:2], 1, generator=generator) * 56 - 37
    return torch.randn(shape, generator=generator) * 10**exponents


@pytest.mark.parametrize("positions", [1, 2, 3, 9])
def test_norms_of_outer_products_are_not_low_for_positions_of_any_size(positions, flushed):
    inputs, outputs = (
        of_any_size(20_000, positions, 5, seed=0),
        of_any_size(20_000, positions, 4, seed=1),
    )
    formed = torch.bmm(outputs.double().transpose(1, 2), inputs.double())
    assert_not_low(Outer(inputs, outputs).squares, formed)


def tied(ids, looked_up, inputs, outputs):
    """Return the squared norms of a table that is looked up and multiplied with, and its gradients
    in float64.
    """
    table, product = Lookups(ids, looked_up, outputs.shape[2]), Outer(inputs, outputs)
    formed = torch.bmm(outputs.double().transpose(1, 2), inputs.double())
    formed += Lookups(ids, looked_up.double(), outputs.shape[2]).dense()
    return Total([table, product], [table.inner(product)]).squares, formed


def test_norms_of_a_tied_table_are_not_low_for_uses_of_any_size(flushed):
    ids = torch.randint(0, 6, (20_000, 3), generator=torch.Generator().manual_seed(3))
    looked_up, inputs = of_any_size(20_000, 3, 5, seed=0), of_any_size(20_000, 3, 5, seed=1)
    assert_not_low(*tied(ids, looked_up, inputs, of_any_size(20_000, 3, 6, seed=2)))


def test_an_inner_product_that_underflows_is_made_up_for(flushed):
    small, smaller, large = (
        torch.full((1, 1, 1), 3e-10),
        torch.full((1, 1, 1), 2e-29),
        torch.full((1, 1, 1), 1e19),
    )
    assert_not_low(*tied(torch.zeros(1, 1, dtype=torch.long), small, smaller, large))


def test_uses_of_a_table_that_cancel_are_not_low():
    """Each lookup is taken back by the product, but for a little: the parts' rounding errors are
    larger than what is left.
    """
    torch.manual_seed(0)
    looked_up, ids = torch.randn(2000, 6, 64), torch.arange(6).expand(2000, 6)
    for left in (1e-3, 1e-5, 1e-7):
        outputs = torch.eye(6).expand(2000, 6, 6)
        assert_not_low(
            *tied(ids, looked_up, left * torch.randn_like(looked_up) - looked_up, outputs)
        )


def test_many_small_parameters_beside_a_large_one_count():
    squares = {"large": torch.ones(1, dtype=torch.float64)}
    squares |= {f"small {i}": torch.full((1,), 5e-8, dtype=torch.float64) for i in range(4000)}
    model = nn.ParameterDict({name: nn.Parameter(torch.zeros(1)) for name in squares})
    groups = make_groups(Flat(), dict(model.items()))
    assert groups.norms(squares, 1, like=torch.ones(1)).item() >= (1 + 4000 * 5e-8) ** 0.5


@pytest.mark.parametrize("order", [1, 2])
def test_positions_that_cancel_stay_within_the_bound(order):
    """What is left is as small as the rounding errors of the parts, which differ between the norm
    and the sum.
    """
    torch.manual_seed(0)
    layer, x, weights = (
        nn.Linear(8, 6, bias=False),
        torch.randn(ROWS, 1, 8).repeat(1, 32, 1),
        torch.randn(ROWS, 32, 6),
    )
    weights -= weights.mean(1, keepdim=True)
    with Engine(
        layer, weighted, Flat(max_grad_norm=1e-9), kernels={"linear": "ghost"}, order=order
    ) as engine:
        assert (share(engine, (x, weights.flatten(1))) <= engine.bounds() * (1 + SLACK)).all()


def test_factors_below_the_normal_numbers_are_not_rounded_up():
    norms = torch.logspace(29, 38, 5000)[:, None]
    applied = enforce_bounds(torch.ones_like(norms), norms, torch.tensor([1e-7]))
    assert (applied.double() * norms.double() <= 1e-7 * (1 + 1e-6)).all()


def test_no_factor_is_so_large_that_a_finite_value_overflows():
    applied = enforce_bounds(
        torch.full((3, 1), 3e38), torch.tensor([[0.0], [1e-30], [1e-3]]), torch.tensor([1e30])
    )
    assert (applied * 1e19).isfinite().all()


def test_estimated_norms_and_their_sums_are_computed_outside_autocast():
    torch.manual_seed(0)
    model, batch = Two(), (torch.randn(ROWS, 3, 6), torch.randn(ROWS, 4))
    found = []
    for autocast in (False, True):
        with (
            torch.autocast("cpu", torch.bfloat16, enabled=autocast),
            Engine(model, weighted, Jl(max_grad_norm=1e6)) as engine,
        ):
            sums = engine.zeros()
            engine.accumulate(batch, sums, bounds=engine.bounds())
        found.append(torch.cat([total.flatten() for total in sums.values()]))
    assert torch.equal(found[0], found[1])


@settings(max_examples=60, deadline=None)
@given(
    value=st.floats(0.5, 2, width=32),
    size=st.sampled_from([100, 128, 129, 1000, 4096]),
    positions=st.sampled_from([1, 2, 40]),
)
def test_sums_that_always_round_down_are_made_up_for(value, size, positions):
    """Equal numbers: every partial sum may lose in the same direction."""
    rows = torch.full((1, positions, size), value)
    assert_not_low(row_squares(rows), rows)
    formed = torch.bmm(rows.double().transpose(1, 2)[:, :64], rows.double()) * (size / 64) ** 0.5
    assert_not_low(Outer(rows, rows).squares, formed)


@pytest.mark.parametrize("uses", [2, 5])
def test_lookups_that_cancel_are_not_low(uses):
    """What an entry adds up to is far smaller than its parts, and their rounding errors aren't."""
    torch.manual_seed(0)
    parts = torch.randn(64, uses, 8) * 1e6
    parts[:, -1] = -parts[:, :-1].sum(1) + torch.randn(64, 8) * 1e-2
    ids = torch.zeros(64, uses, dtype=torch.long)
    assert_not_low(Lookups(ids, parts, 3).squares, parts.double().sum(1))
