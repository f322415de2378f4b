"""Reading the records of users: each row that is read stays its own user's, whatever becomes of other records."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from dppipe.learners.records.reading import RecordReader, make_reader

RECORDS = 9
OWNERS = numpy.arange(RECORDS) // 2 + 10
"""The user of each record; its number stands in the record itself, too."""


class Records(Dataset):
    """Records that hold their owner; some can't be read, and some are longer than others."""

    def __init__(self, *, broken=(), long=()):
        self.broken, self.long = broken, long

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        if index in self.broken:
            raise OSError("this record is damaged")
        return (torch.full((5 if index in self.long else 2,), float(OWNERS[index])),)


def owners_in(batch):
    """Return the owners that stand in the rows of a batch, in the order of its units."""
    return [int(row[0]) for part in batch.parts for row in part[0]]


@pytest.mark.parametrize(
    "records",
    [
        Records(),
        Records(broken=(0,)),
        Records(broken=(3, 4, 8)),
        Records(long=(0, 5)),
        Records(broken=(2,), long=(0, 1, 7)),
    ],
    ids=["all alike", "first broken", "some broken", "two lengths", "broken and long"],
)
@pytest.mark.parametrize(
    "collate", [None, lambda examples: [examples[0][0][None]]], ids=["stacked", "collated"]
)
def test_rows_of_single_records_stay_their_users(records, collate):
    drawn = numpy.array([8, 0, 3, 1, 2, 7, 4, 6, 5])
    batch = RecordReader(records, collate).read(drawn, OWNERS[drawn])
    assert batch.units.tolist() == owners_in(batch)
    assert len(batch.units) == RECORDS - len(records.broken)
    assert batch.broken == len(records.broken)


def test_rows_in_memory_stay_their_users_where_some_are_left_out():
    valid = numpy.array([True, False, True, True, False, True, True, True, False])
    values = TensorDataset(torch.from_numpy(OWNERS)[:, None].float())
    drawn = numpy.array([1, 0, 8, 3, 2, 7])
    batch = RecordReader(values, valid=valid).read(drawn, OWNERS[drawn])
    assert batch.units.tolist() == owners_in(batch) == OWNERS[[0, 3, 2, 7]].tolist()
    assert batch.broken == 2


def test_a_record_that_is_marked_as_bad_stays_out_where_ranges_are_stated():
    dataset = TensorDataset(torch.arange(6.0)[:, None], torch.tensor([0, 1, 2, 1, 0, 9]))
    dataset.valid = numpy.array([True, False, True, True, True, True])
    reader = make_reader(dataset, collate=None, ranges=(None, range(3)))
    batch = reader.read(numpy.arange(6), numpy.arange(6))
    assert batch.units.tolist() == [0, 2, 3, 4]
