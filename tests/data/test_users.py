"""Data whose records belong to users: ids are read, counted and split, and no user stands on two sides of a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from pydantic import ValidationError
from torch.utils.data import TensorDataset

from dppipe.data import Csv, Data, Npz, Split, Synthetic
from dppipe.data.reading.users import users_of, with_users
from dppipe.errors import SpecError, UsageError

SPLIT = Split(train=0.5, val=0.25, test=0.25)
OWNERS = numpy.array(["b", "a", "c", "a", "d", "b", "a", "d"])


def csv(tmp_path: Path, **options: Any) -> Csv:
    rows = "".join(f"{row},{owner},{row % 2}\n" for row, owner in enumerate(OWNERS))
    (tmp_path / "visits.csv").write_text("age,patient,readmitted\n" + rows)
    given = {
        "path": str(tmp_path / "visits.csv"),
        "user": "patient",
        "users": 4,
        "numeric": [{"column": "age"}],
    }
    return Csv.from_data(
        {
            **given,
            "target": {"column": "readmitted", "classes": [0, 1]},
            "split": SPLIT.model_dump(),
            **options,
        }
    )


def npz(tmp_path: Path, **options: Any) -> Npz:
    inputs = numpy.arange(8.0)[:, None]
    numpy.savez(
        tmp_path / "visits.npz", x=inputs, y=numpy.arange(8) % 2, who=OWNERS, few=OWNERS[:3]
    )
    given = {
        "path": str(tmp_path / "visits.npz"),
        "classes": 2,
        "user": "who",
        "users": 4,
        "split": SPLIT.model_dump(),
    }
    return Npz.from_data(given | options)


@pytest.fixture(params=[csv, npz], ids=["csv", "npz"])
def visits(request: pytest.FixtureRequest, tmp_path: Path) -> Data:
    made: Data = request.param(tmp_path)
    return made


def records(part: Any) -> list[int]:
    return [int(row[0]) for row in part]


def test_a_users_records_stand_on_one_side_of_the_split(visits: Data) -> None:
    splits = visits.splits(seed=3)
    owners = [set(OWNERS[records(part)]) for part in splits]
    assert [len(names) for names in owners] == [2, 1, 1]
    assert set.union(*owners) == set(OWNERS)
    assert sorted(row for part in splits for row in records(part)) == list(range(8))
    assert visits.train_users() == 2


def test_the_training_records_know_their_users(visits: Data) -> None:
    train = visits.splits(seed=3).train
    numbers, names = users_of(train), OWNERS[records(train)]
    assert numbers is not None
    assert sorted(set(numbers.tolist())) == [0, 1]
    assert [names[numbers == number].tolist() for number in (0, 1)] == [
        [name] * int((names == name).sum()) for name in sorted(set(names))
    ]


def test_a_wrong_number_of_users_is_found_when_records_are_read(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"data\.users: expected the number of users in the data, 4, got 5"
    ):
        csv(tmp_path, users=5).splits(seed=0)


@pytest.mark.parametrize("make", [csv, npz])
def test_a_number_of_users_without_ids_is_refused(make: Any, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="whose each record is"):
        make(tmp_path, user=None)


@pytest.mark.parametrize("make", [csv, npz])
def test_a_secret_number_of_users_is_not_stated_and_the_split_is_the_same(
    make: Any, tmp_path: Path
) -> None:
    secret, public = make(tmp_path, users=None), make(tmp_path)
    assert secret.by_users
    assert [records(part) for part in secret.splits(seed=3)] == [
        records(part) for part in public.splits(seed=3)
    ]


def test_an_array_of_ids_must_fit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="for each of 8 records"):
        npz(tmp_path, user="few").count()


def test_a_number_of_users_is_needed_to_plan() -> None:
    with pytest.raises(SpecError, match=r"data\.users"):
        Synthetic().train_users()
    with pytest.raises(SpecError, match=r"data\.split"):
        Synthetic(users=1, split=Split(train=0.4, val=0, test=0)).train_users()


def test_synthetic_users_all_have_records_and_differ_in_how_many() -> None:
    numbers = users_of(Synthetic(size=500, users=100).load())
    assert numbers is not None
    counts = numpy.bincount(numbers)
    assert len(counts) == 100
    assert counts.min() >= 1
    assert len(set(counts)) > 3
    with pytest.raises(ValidationError, match="no more users"):
        Synthetic(size=10, users=11)


@pytest.mark.parametrize(
    "users", [numpy.zeros(4), numpy.zeros(3, int), numpy.zeros((5, 1), int), [None] * 5]
)
def test_ids_are_an_integer_or_a_text_for_each_record(users: Any) -> None:
    with pytest.raises(UsageError, match="users"):
        users_of(with_users(TensorDataset(torch.zeros(5, 1)), users))


def test_a_data_set_need_not_tell_its_users() -> None:
    assert users_of(TensorDataset(torch.zeros(5, 1))) is None
