"""The units of a dataset: the data says what they are, and the index knows the records of each."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch.utils.data import TensorDataset

from dppipe.data.reading.users import with_users
from dppipe.errors import UsageError
from dppipe.learners.records.unit_index import ExampleIndex, UserIndex, make_unit_index
from dppipe.sampling import Poisson, User

OWNERS = numpy.array(["b", "a", "b", "c", "a", "b"])


def visits() -> TensorDataset:
    made: TensorDataset = with_users(TensorDataset(torch.zeros(6, 2)), OWNERS)
    return made


def test_each_record_is_its_own_unit_for_a_sampler_of_examples() -> None:
    limit = Poisson(sample_rate=0.5).records_per_user
    index = make_unit_index(visits(), records_per_user=limit)
    assert isinstance(index, ExampleIndex)
    assert (index.count, index.at_most, index.unit_of) == (6, 1, None)
    drawn = numpy.array([4, 0])
    assert index.records(drawn).tolist() == [4, 0]


def test_the_units_are_the_users_for_a_sampler_that_needs_them() -> None:
    sampler = User(sample_rate=0.5, max_records_per_user=2)
    assert sampler.needs_users
    index = make_unit_index(visits(), records_per_user=sampler.records_per_user)
    assert isinstance(index, UserIndex)
    assert (index.count, index.at_most) == (3, 2)
    assert index.records(numpy.array([1, 2])).tolist() == [0, 2, 3]


def test_every_record_of_a_drawn_user_is_that_users_and_none_exceeds_the_limit() -> None:
    users = numpy.random.default_rng(0).integers(20, size=200)
    users = numpy.unique(users, return_inverse=True)[1]
    for at_most in (1, 3, 200):
        index = UserIndex(users, at_most=at_most)
        for user in range(index.count):
            records = index.records(numpy.array([user]))
            own = numpy.flatnonzero(users == user)
            assert records.tolist() == own[:at_most].tolist()
            assert index.unit_of is not None
            assert set(index.unit_of(records).tolist()) == {user}


def test_data_without_users_is_refused_for_a_sampler_that_needs_them() -> None:
    with pytest.raises(UsageError, match="expected data that says whose each record is"):
        make_unit_index(TensorDataset(torch.zeros(6, 2)), records_per_user=2)
