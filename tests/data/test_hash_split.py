"""The split under add_remove: a record's part is a function of that record, so no record moves another one."""

from __future__ import annotations

import random
import time
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from listed_records import Listed
from torch.utils.data import Subset, TensorDataset

from dppipe.data import Csv, Npz, Split
from dppipe.data.reading.users import ids_of, with_users
from dppipe.data.reading.validity import valid_of, with_valid
from dppipe.data.splitting.by_hash import draw_parts
from dppipe.data.splitting.encoding import encode_record
from dppipe.errors import UsageError

SPLIT = Split(train=0.6, val=0.2, test=0.1)


def parts_of(
    dataset: Any, *, seed: int = 0, split: Split = SPLIT, by_users: bool = False
) -> list[str]:
    """Return the name of each record's part."""
    found = ["none"] * len(dataset)
    for name, rows in zip(
        ("train", "val", "test"),
        draw_parts(dataset, split, by_users=by_users, seed=seed),
        strict=True,
    ):
        for row in rows:
            assert found[row] == "none"
            found[row] = name
    return found


def tensors(values: list[int]) -> TensorDataset:
    column = torch.tensor(values, dtype=torch.float32)[:, None]
    return TensorDataset(
        torch.cat([column, column + 0.5], dim=1), torch.tensor(values, dtype=torch.int64) % 3
    )


values = st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=60)


@settings(deadline=None)
@given(values=values, gone=st.integers(0, 59), seed=st.integers(0, 2**64 - 1))
def test_removing_a_record_moves_no_other(values: list[int], gone: int, seed: int) -> None:
    gone %= len(values)
    rest = values[:gone] + values[gone + 1 :]
    before = parts_of(tensors(values), seed=seed)
    assert parts_of(tensors(rest), seed=seed) == before[:gone] + before[gone + 1 :]


@settings(deadline=None)
@given(values=values, gone=st.integers(0, 59), seed=st.integers(0, 2**64 - 1))
def test_removing_a_record_that_is_read_one_by_one_moves_no_other(
    values: list[int], gone: int, seed: int
) -> None:
    records = [
        {"x": torch.tensor([float(value)]), "text": "a" * (value % 7), "y": value}
        for value in values
    ]
    gone %= len(records)
    before = parts_of(Listed(records), seed=seed)
    assert (
        parts_of(Listed(records[:gone] + records[gone + 1 :]), seed=seed)
        == before[:gone] + before[gone + 1 :]
    )


ids = st.one_of(
    st.lists(st.integers(-9, 9), min_size=1, max_size=40),
    st.lists(st.text(max_size=9), min_size=1, max_size=40),
)


@settings(deadline=None)
@given(ids=ids, gone=st.integers(0, 39), seed=st.integers(0, 2**32 - 1))
def test_removing_a_user_moves_no_other_and_a_users_records_stay_together(
    ids: list[Any], gone: int, seed: int
) -> None:
    ids = [
        user.replace("\0", "") if isinstance(user, str) else user for user in ids
    ]  # NumPy drops trailing zeros
    left = [user for user in ids if user != ids[gone % len(ids)]]

    def places(users: list[Any]) -> dict[Any, set[str]]:
        dataset = with_users(TensorDataset(torch.arange(float(len(users)))), numpy.array(users))
        found: dict[Any, set[str]] = {}
        for user, part in zip(users, parts_of(dataset, seed=seed, by_users=True), strict=True):
            found.setdefault(user, set()).add(part)
        return found

    before = places(ids)
    assert all(len(parts) == 1 for parts in before.values())
    if left:
        assert places(left) == {user: before[user] for user in left}


def test_shares_come_out_as_stated() -> None:
    """Each of 3 counts of 20000 lies within 5 deviations for 10 seeds: false alarms below 2e-5, and the seeds are fixed."""
    dataset = tensors(list(range(20_000)))
    for seed in range(10):
        parts = parts_of(dataset, seed=seed)
        for name, share in (("train", 0.6), ("val", 0.2), ("test", 0.1)):
            assert (
                abs(parts.count(name) - share * 20_000) < 5 * (20_000 * share * (1 - share)) ** 0.5
            )


def test_the_seed_decides_and_equal_records_fall_into_the_same_part() -> None:
    dataset = tensors([*range(200), *range(200)])
    first = parts_of(dataset, seed=1)
    assert first[:200] == first[200:]
    assert parts_of(dataset, seed=2) != first


def test_a_split_is_the_same_in_every_version() -> None:
    short = {"train": "t", "val": "v", "test": "e", "none": "-"}
    found = "".join(short[part] for part in parts_of(tensors(list(range(24))), seed=8))
    assert found == FROZEN
    owned = with_users(tensors([0] * 12), numpy.array([*range(6), *range(6)]))
    assert "".join(short[part] for part in parts_of(owned, seed=8, by_users=True)) == FROZEN_USERS


FROZEN = "etttet-vttt-te-eettvtttt"
FROZEN_USERS = "tet-t-tet-t-"


def test_every_part_of_a_record_counts() -> None:
    one = (torch.zeros(2), 1)
    others = [
        (torch.zeros(2), 2),
        (torch.zeros(3), 1),
        (torch.zeros(2, dtype=torch.float64), 1),
        (torch.zeros(2, 1), 1),
        (torch.tensor([0.0, 1.0]), 1),
        (torch.zeros(2), 1.0),
        (torch.zeros(2), "1"),
        (torch.zeros(2), True),
        (torch.zeros(2), None),
        (torch.zeros(2), (1,)),
        (numpy.zeros(2, dtype=numpy.float32), 1),
        {"x": torch.zeros(2), "y": 1},
        {"x": 1, "y": torch.zeros(2)},
        (b"", "ab"),
        (b"a", "b"),
        (torch.zeros(2, dtype=torch.bfloat16), 1),
    ]
    assert len({encode_record(record) for record in [one, *others]}) == len(others) + 1
    assert encode_record({"a": 1, "b": 2}) == encode_record({"b": 2, "a": 1})


def test_rows_of_tensors_are_split_as_the_same_records_read_one_by_one() -> None:
    whole = tensors(list(range(300)))
    assert parts_of(Subset(whole, range(300))) == parts_of(whole)


def test_a_record_that_cannot_be_read_is_in_no_part_and_moves_no_other() -> None:
    records: list[Any] = [(torch.tensor([float(value)]), value) for value in range(60)]
    before = parts_of(Listed(records))
    for broken in (ValueError("4711-secret"), object(), (torch.zeros(1), object())):
        after = parts_of(Listed([*records[:20], broken, *records[21:]]))
        assert after == [*before[:20], "none", *before[21:]]


def test_records_that_are_marked_invalid_are_in_no_part_but_stay_with_their_user() -> None:
    valid = numpy.arange(40) != 11
    before = parts_of(tensors(list(range(40))))
    assert parts_of(with_valid(tensors(list(range(40))), valid)) == [
        *before[:11],
        "none",
        *before[12:],
    ]
    owned = with_users(tensors(list(range(40))), numpy.arange(40) // 4)
    expected = parts_of(owned, by_users=True)
    assert parts_of(with_valid(owned, valid), by_users=True) == expected


def test_data_of_which_nothing_can_be_read_is_refused_without_a_value() -> None:
    with pytest.raises(
        UsageError, match="expected records made of tensors, arrays, numbers and texts, got none"
    ) as caught:
        draw_parts(Listed([ValueError("4711-secret")] * 5), SPLIT, by_users=False, seed=0)
    assert "4711" not in str(caught.value)


class Augmented(Listed):
    """Adds noise of the global generators, as augmentation does, and warns."""

    def __getitem__(self, index: int) -> Any:
        warnings.warn("4711-secret", stacklevel=1)
        noise = torch.randn(1) + numpy.random.rand() + random.random()
        return self.records[index] + noise


def test_augmentation_by_the_global_generators_moves_no_record_and_leaves_them_as_they_were() -> (
    None
):
    records = [torch.tensor([float(value)]) for value in range(80)]
    torch.manual_seed(0)
    state = torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    before = parts_of(Augmented(records))
    assert parts_of(Augmented(records)) == before
    assert parts_of(Augmented(records[1:])) == before[1:]
    after = torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    assert after == state


def test_no_records_make_empty_parts() -> None:
    assert parts_of(TensorDataset(torch.zeros(0, 3), torch.zeros(0))) == []


def test_parts_carry_the_marks_of_their_records(tmp_path: Path) -> None:
    owners = numpy.array([f"user {row // 3}" for row in range(90)])
    numpy.savez(
        tmp_path / "d.npz", x=numpy.arange(90.0)[:, None], y=numpy.arange(90) % 2, who=owners
    )
    data = Npz.from_data(
        {"path": str(tmp_path / "d.npz"), "classes": 2, "user": "who", "split": SPLIT.model_dump()}
    )
    for part in data.splits(seed=3, by="hash"):
        assert part is not None
        kept = ids_of(part)
        assert kept is not None
        assert kept.tolist() == [owners[int(row[0])] for row in part]
        assert valid_of(part) is None


def test_whether_a_part_is_there_follows_from_its_share_alone(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "d.npz", x=numpy.zeros((5, 2)), y=numpy.zeros(5, dtype=int))
    splits = Npz.from_data({"path": str(tmp_path / "d.npz"), "classes": 2}).splits(
        seed=0, by="hash"
    )
    assert splits.val is not None
    assert splits.test is not None
    assert sorted(len(part) for part in splits) == [0, 0, 5]  # type: ignore[arg-type]  # equal records go together
    whole = {
        "path": str(tmp_path / "d.npz"),
        "classes": 2,
        "split": {"train": 1, "val": 0, "test": 0},
    }
    assert Npz.from_data(whole).splits(seed=0, by="hash")[1:] == (None, None)


def test_test_records_of_their_own_are_kept(tmp_path: Path) -> None:
    for name, rows in (("a.csv", range(50)), ("b.csv", range(50, 60))):
        (tmp_path / name).write_text("x,y\n" + "".join(f"{row},{row % 2}\n" for row in rows))
    options = {"numeric": [{"column": "x"}], "target": {"column": "y", "classes": [0, 1]}}
    paths = {"path": str(tmp_path / "a.csv"), "test_path": str(tmp_path / "b.csv")}
    splits = Csv.from_data(
        {**options, **paths, "split": {"train": 0.7, "val": 0.3, "test": 0}}
    ).splits(seed=0, by="hash")
    assert [int(row[0]) for row in splits.test] == list(range(50, 60))  # type: ignore[union-attr]
    assert len(splits.train) + len(splits.val) == 50  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_million_rows_are_split_in_seconds() -> None:
    dataset = TensorDataset(torch.randn(1_000_000, 30), torch.zeros(1_000_000))
    start = time.monotonic()
    draw_parts(dataset, SPLIT, by_users=False, seed=0)
    assert time.monotonic() - start < 10
