"""Declared ranges of integers.

A record is used if each of its integers is in range, however the records are read.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.utils.data import TensorDataset

from dppipe.learners.records.reading import check_ranges, tensors_in_range

VALUES = (-1, 0, 1, 2, 3)
LIMITS = (range(1, 3), range(3))
"""The ranges of a record's two integers."""
RECORDS = list(product(VALUES, VALUES))


def is_refused(record, ranges) -> bool:
    try:
        check_ranges(record, ranges)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_that_is_read_alone_has_each_integer_in_its_own_range(record):
    inside = all(value in limits for value, limits in zip(record, LIMITS, strict=True))
    assert is_refused(record, LIMITS) is not inside
    tensors = tuple(map(torch.tensor, record))
    assert is_refused(tensors, list(LIMITS)) is not inside
    named = {"first": record[0], "second": torch.tensor([1, record[1]])}
    assert is_refused(named, {"first": LIMITS[0], "second": LIMITS[1]}) is not inside


def test_a_record_in_memory_has_each_integer_in_its_own_range():
    columns = torch.tensor(RECORDS).T
    found = tensors_in_range(TensorDataset(*columns), LIMITS)
    assert found.tolist() == [not is_refused(record, LIMITS) for record in RECORDS]
    assert 0 < found.sum() < len(found)


def test_one_integer_out_of_range_is_enough_among_many():
    rows = torch.tensor([[0, 1], [2, 3], [-1, 0]])
    assert tensors_in_range(TensorDataset(rows, torch.zeros(3)), (range(3), None)).tolist() == [
        True,
        False,
        False,
    ]
