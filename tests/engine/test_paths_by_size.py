"""Every path that a size chooses is taken at tiny sizes, and its norms and sums are those of
float64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dppipe.clipping import Flat
from dppipe.engine.gradients import costs, norms, products
from dppipe.engine.gradients.forms import Outer
from dppipe.engine.gradients.norms import raise_norms, row_squares
from dppipe.engine.rules import conv_kernels, embedding, linear
from dppipe.engine.units import Units
from dppipe.randomness import gaussian, laplace

CLOSE = 1e-3
"""How far above the truth a norm may be where rounding is added back."""

OF_PARTS = 3e-3
"""How far above it may be where parts cancel, as a share of their norms: the root of some roundings
of a square.
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Choose paths at tiny sizes: blocks of 8 terms, sums of 4 products, few positions up to 3."""
    norms.block_of.cache_clear()
    for module in (norms, products, embedding):
        monkeypatch.setattr(module, "BLOCK", 8)
        monkeypatch.setattr(module, "SHORT", 4)
    monkeypatch.setattr(products, "FEW", 3)
    monkeypatch.setattr(linear, "CHUNK", 16)
    monkeypatch.setattr(conv_kernels, "CHUNK", 64)
    monkeypatch.setattr(conv_kernels, "FEWEST", 2)
    yield
    norms.block_of.cache_clear()


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Counter[str]]:
    """Count the calls of functions, by their names."""

    def watch(owner: Any, *names: str) -> Counter[str]:
        calls: Counter[str] = Counter()

        def counted(name: str, function: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                calls[name] += 1
                return function(*args, **kwargs)

            return call

        for name in names:
            monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
        return calls

    return watch


def never_below(
    squares: torch.Tensor, exact: torch.Tensor, *, largest: int, reach: Any = 0.0
) -> None:
    """Expect norms from the true ones up to a small share, of them or of their parts, above."""
    unit = norms.rounding_of(torch.float32).unit
    raised = raise_norms(squares.sqrt(), largest=largest, unit=unit)
    assert (raised >= exact).all()
    assert (raised <= exact + CLOSE * exact + OF_PARTS * reach).all()


@pytest.mark.parametrize(
    ("size", "calls"), [(1, 1), (8, 1), (16, 1), (21, 1), (17, 2), (23, 2), (257, 2)]
)
def test_rows_in_one_block_equal_blocks_or_with_a_rest_have_the_norms_of_float64(
    small, count, size, calls
):
    """A size with a divisor between 3 and 8 has equal blocks; a prime one has a rest, summed by a
    call of its own.
    """
    watched = count(norms, "_norms")
    rows = torch.randn(40, size, generator=torch.Generator().manual_seed(size))
    found = row_squares(rows)
    assert watched["_norms"] == calls
    never_below(found, rows.double().norm(dim=1), largest=size)


POSITIONS = {1: "none", 2: "_few_squares", 3: "_few_squares", 4: "gram_sizes", 7: "gram_sizes"}


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("width", [5, 8, 9, 30])
@pytest.mark.parametrize("spread", [1.0, 1e-6], ids=["apart", "cancelling"])
def test_outer_products_of_any_number_of_positions_have_the_norms_of_float64(
    small, count, positions, width, spread
):
    watched = count(products, "_few_squares", "gram_sizes", "_norm")
    generator = torch.Generator().manual_seed(width)
    inputs = torch.randn(30, 1, width, generator=generator)
    inputs = inputs + spread * torch.randn(30, positions, width, generator=generator)
    outputs = torch.randn(30, positions, 6, generator=generator)
    if spread < 1 < positions:  # the sum is all that is left of large parts
        outputs = outputs - outputs.mean(1, keepdim=True)
    reach = (inputs.double().norm(dim=2) * outputs.double().norm(dim=2)).sum(1)
    found = Outer(inputs, outputs).squares
    path = POSITIONS[positions]
    assert watched == (
        {} if path == "none" else {path: 1} | ({"_norm": 2} if path == "gram_sizes" else {})
    )
    exact = torch.bmm(outputs.double().transpose(1, 2), inputs.double()).flatten(1).norm(dim=1)
    never_below(found, exact, largest=6 * width, reach=reach if spread < 1 else 0.0)


@pytest.mark.parametrize(("width", "blocks"), [(8, 1), (9, 2), (24, 3), (25, 4)])
def test_inner_products_are_cut_into_blocks_and_lose_no_block(small, count, width, blocks):
    watched = count(torch, "bmm")
    left, right = torch.randn(3, 4, width), torch.randn(3, 5, width)
    found = products.cross_products(left, right)
    assert watched["bmm"] == blocks
    exact = left.double() @ right.double().transpose(1, 2)
    assert torch.allclose(found.double(), exact, atol=1e-5)
    assert products.roundings_of(width) == min(width, 8) + blocks - 1


@pytest.mark.parametrize("values", [1, 3, 4, 5, 8, 11])
def test_short_sums_lose_no_rest(small, values):
    rows = torch.randn(6, values)
    assert torch.allclose(products.short_sums(rows), rows.double().sum(1), atol=1e-5)


@pytest.mark.parametrize(("rows", "cut"), [(8, False), (9, True), (13, True)])
def test_rows_of_a_large_data_set_are_multiplied_in_pieces(small, count, run, loop, rows, cut):
    """More than 4 x 16 floats of 8 values a row."""
    watched = count(linear, "_with_squares")
    torch.manual_seed(rows)
    model, batch = nn.Linear(8, 3), (torch.randn(rows, 8),)
    result, _ = run(model, batch, Flat(max_grad_norm=1.0))
    assert (watched["_with_squares"] > 0) == cut
    loop(model, batch).agrees_with(result)


@pytest.mark.parametrize(("word", "kernel"), [(0.0, "dense"), (1e9, "ghost")])
def test_the_cheaper_form_is_taken_and_both_give_the_same(
    small, monkeypatch, run, loop, word, kernel
):
    monkeypatch.setattr(costs, "FEW", 0)
    monkeypatch.setattr(costs, "WORD", word)
    torch.manual_seed(0)
    model, batch = nn.Linear(6, 5), (torch.randn(4, 5, 6),)
    result, engine = run(model, batch, Flat(max_grad_norm=1.0))
    assert engine.gradients.chosen == {"weight": kernel}
    loop(model, batch).agrees_with(result)


@pytest.mark.parametrize("rows", [2, 7])
@pytest.mark.parametrize("kernel", ["grouped", "unfolded", "ghost"])
def test_convolutions_in_pieces_lose_no_row(small, count, run, loop, kernel, rows):
    watched = count(conv_kernels, "_grouped")
    unfolds = count(conv_kernels.Geometry, "unfold")
    torch.manual_seed(rows)
    model, batch = nn.Conv2d(2, 3, 3), (torch.randn(rows, 2, 5, 5),)
    result, _ = run(model, batch, Flat(max_grad_norm=1.0), kernels={"conv": kernel})
    # A weight has 54 values, so two rows of formed gradients are a piece; so are two rows of
    # patches.
    calls = watched["_grouped"] if kernel == "grouped" else unfolds["unfold"]
    assert calls >= -(-rows // 2)
    assert bool(watched) == (kernel == "grouped")
    loop(model, batch).agrees_with(result)


UNITS = {"even": [0, 0, 1, 1, 2, 2, 3, 3], "ragged": [0, 0, 0, 0, 0, 1, 2, 3]}


@pytest.mark.parametrize("shape", UNITS)
@pytest.mark.parametrize("layer", ["linear", "embedding"])
def test_users_with_few_or_many_records_are_averaged_alike(small, count, run, loop, shape, layer):
    watched = count(Units, "gather")
    torch.manual_seed(0)
    model: nn.Module = nn.Linear(4, 3, bias=False)
    batch = (torch.randn(8, 4),)
    if layer == "embedding":
        model = nn.Embedding(5, 3)
        batch = (torch.randint(0, 5, (8, 4)),)
    units = UNITS[shape]
    result, _ = run(model, batch, Flat(max_grad_norm=1.0), units=units)
    assert bool(watched) == (shape == "even")
    loop(model, batch, units=units).agrees_with(result)


@pytest.mark.parametrize("kind", ["gaussian", "secure", "laplace"])
def test_noise_in_several_blocks_reaches_every_value_and_repeats_none(monkeypatch, kind):
    monkeypatch.setattr(gaussian, "_BLOCK", 16)
    monkeypatch.setattr(laplace, "_BLOCK", 16)

    def stream() -> Any:
        if kind == "laplace":
            return laplace.LaplaceStream(b"k" * 32)
        return gaussian.GaussianStream(b"k" * 32, secure=kind == "secure")

    values = stream().add_(torch.zeros(40, dtype=torch.float64), 1.0, over=2.0)
    assert len(set(values.tolist())) == 40
    assert (values != 0).all()
    if kind != "secure":  # its noise is scaled to the number of values
        again = stream()
        parts = [
            again.add_(torch.zeros(n, dtype=torch.float64), 1.0, over=2.0) for n in (16, 16, 8)
        ]
        assert torch.equal(torch.cat(parts), values)
