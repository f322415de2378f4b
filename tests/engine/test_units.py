"""Rows of one privacy unit are averaged; the result depends on its own unmasked rows alone."""

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.engine.units import make_units

LIKE = torch.zeros(1)
KINDS = ("equal sizes", "equal sizes, out of order", "several sizes", "masked rows")


@st.composite
def layouts(draw):
    """Return the unit of each row, and the mask or None."""
    kind = draw(st.sampled_from(KINDS))
    units = draw(st.integers(1, 6))
    if kind == "several sizes":
        sizes = draw(st.lists(st.integers(1, 5), min_size=units, max_size=units))
    else:
        sizes = [draw(st.integers(1, 5))] * units
    ids = numpy.repeat(numpy.arange(units) * 7, sizes)
    if kind != "equal sizes":
        ids = numpy.array(draw(st.permutations(ids.tolist())))
    mask = None
    if kind == "masked rows":
        mask = torch.tensor(draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))))
    return ids, mask


def averages(values, ids, mask):
    """Average the unmasked rows of each unit in float64; a unit without one has zeros."""
    found = []
    for unit in numpy.unique(ids):
        mine = torch.from_numpy(ids == unit)
        if mask is not None:
            mine = mine & mask
        rows = values.double()[mine]
        found.append(rows.mean(0) if len(rows) else torch.zeros(values.shape[1:]).double())
    return torch.stack(found)


@settings(deadline=None)
@given(layouts(), st.integers(0, 99))
def test_both_ways_to_average_agree_with_a_float64_reference(layout, seed):
    ids, mask = layout
    values = torch.randn(len(ids), 3, 4, generator=torch.Generator().manual_seed(seed))
    units = make_units(ids, mask, like=LIKE)
    expected = averages(values, ids, mask)

    torch.testing.assert_close(units.average(values).double(), expected, rtol=1e-5, atol=1e-6)
    laid = units.gather(values, weighted=True).unflatten(1, (-1, 3))
    torch.testing.assert_close(laid.sum(1).double(), expected, rtol=1e-5, atol=1e-6)


@settings(deadline=None)
@given(layouts(), st.integers(0, 99))
def test_inputs_laid_side_by_side_pair_with_their_own_outputs(layout, seed):
    ids, mask = layout
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(len(ids), 2, 3, generator=generator)
    outputs = torch.randn(len(ids), 2, 4, generator=generator)
    units = make_units(ids, mask, like=LIKE)

    gathered = units.gather(outputs, weighted=True).transpose(1, 2) @ units.gather(inputs)
    products = outputs.transpose(1, 2) @ inputs
    torch.testing.assert_close(
        gathered.double(), averages(products, ids, mask), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("ids", [[0, 0, 1, 1], [1, 0, 1, 0], [0, 0, 1]])
def test_an_infinity_stays_in_its_own_unit(ids):
    values = torch.ones(len(ids), 1, 2)
    values[0] = float("inf")
    units = make_units(ids, None, like=LIKE)
    other = 1 - ids[0]
    for found in (units.average(values), units.gather(values), units.gather(values, weighted=True)):
        assert found[other].isfinite().all()
        assert not found[ids[0]].isfinite().all()


@pytest.mark.parametrize("ids", [[0, 0, 1, 1], [1, 0, 1, 0], [0, 0, 1]])
def test_an_infinity_in_a_masked_row_reaches_no_unit(ids):
    values = torch.ones(len(ids), 1, 2)
    values[0] = float("inf")
    mask = torch.tensor([False] + [True] * (len(ids) - 1))
    units = make_units(ids, mask, like=LIKE)
    for found in (units.average(values), units.gather(values), units.gather(values, weighted=True)):
        assert found.isfinite().all()


def test_units_of_one_size_in_order_are_laid_side_by_side_without_a_copy():
    values = torch.randn(6, 1, 2)
    units = make_units([3, 3, 5, 5, 9, 9], None, like=LIKE)
    assert units.gather(values).data_ptr() == values.data_ptr()
