"""Rows that are read together: no record changes the type, shape or value of another's row."""

from __future__ import annotations

from itertools import product

import numpy
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten
from torch.utils.data import Dataset

from dppipe.learners.records.reading import RecordReader

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.bool,
]
SHAPES = [(3,), (1,), (3, 1), ()]


def leaves():
    """Return the inputs that a record may have: tensors, arrays and numbers of many kinds."""
    made = [torch.ones(shape, dtype=dtype) for shape, dtype in product(SHAPES, TYPES)]
    made += [numpy.ones(3, dtype=name) for name in ("float32", "float64", "int64", "uint8")]
    made += [numpy.float32(1), numpy.float64(1), numpy.int64(1), 1, 1.0, True]
    return made


FORMS = {
    "tuple": lambda leaf, y: (leaf, y),
    "list": lambda leaf, y: [leaf, y],
    "mapping": lambda leaf, y: {"x": leaf, "y": y},
    "nested": lambda leaf, y: ({"x": [leaf]}, y),
}


class Mixed(Dataset):
    """Records of all kinds of inputs, each twice; a record's number stands in its target."""

    def __init__(self, form):
        self.form, self.inputs = form, [*leaves(), *leaves()]

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return FORMS[self.form](self.inputs[index], torch.tensor(index))


def one_row(examples):
    """Collate one example by hand."""
    (example,) = examples
    values, structure = tree_flatten(example)
    rows = [torch.as_tensor(value)[None] for value in values]
    return torch.utils._pytree.tree_unflatten(rows, structure)


def rows_of(batch):
    """Return the values of each row of a batch by the record's number."""
    found = {}
    for part in batch.parts:
        values, _ = tree_flatten(part)
        inputs, numbers = values
        for place, number in enumerate(numbers.tolist()):
            assert number not in found
            found[number] = inputs[place]
    return found


def same(one: Tensor, two: Tensor) -> bool:
    return one.dtype == two.dtype and one.shape == two.shape and torch.equal(one, two)


@pytest.mark.parametrize("collate", [None, one_row], ids=["stacked", "collated"])
@pytest.mark.parametrize("form", FORMS)
def test_a_row_among_all_kinds_of_others_is_as_it_is_alone(form, collate):
    reader = RecordReader(Mixed(form), collate)
    drawn = numpy.random.default_rng(0).permutation(len(reader.dataset))
    batch = reader.read(drawn)
    together = rows_of(batch)
    assert (sorted(together), batch.broken) == (sorted(drawn.tolist()), 0)
    for number in drawn.tolist():
        alone = rows_of(reader.read(numpy.array([number])))
        assert same(together[number], alone[number]), reader.dataset.inputs[number]


@pytest.mark.parametrize("form", ["tuple", "nested"])
def test_of_any_two_records_each_is_as_it_is_alone_whichever_comes_first(form):
    reader = RecordReader(Mixed(form))
    alone = rows_of(reader.read(numpy.arange(len(reader.dataset))))
    half = len(reader.dataset) // 2
    for one, two in product(range(0, half, 8), range(0, half, 2)):
        for pair in ([one, two + half], [two + half, one]):
            found = rows_of(reader.read(numpy.array(pair)))
            assert sorted(found) == sorted(pair)
            assert all(same(found[number], alone[number]) for number in pair), pair


def test_records_of_one_kind_form_one_batch_in_their_order():
    reader = RecordReader(Mixed("tuple"))
    half = len(reader.dataset) // 2
    for number in range(half):
        batch = reader.read(numpy.array([number, number + half]))
        assert len(batch.parts) == 1
        assert list(rows_of(batch)) == [number, number + half]
