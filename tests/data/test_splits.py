"""How records are split: by the public seed, without loss or overlap, the same in every version."""

from __future__ import annotations

import sys

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import Subset, TensorDataset

from dppipe.data.base import Data, Split, Splits, Task, draw_order
from dppipe.errors import SpecError, UsageError


class Numbers(Data, kind="numbers"):
    """Records 0 to 9: whole, with test records of their own, or split already."""

    parts: int = 1
    tensors: bool = True

    @property
    def task(self) -> Task:
        return "regression"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (1,)

    @property
    def outputs(self) -> int:
        return 1

    def count(self) -> int:
        return 10

    def load(self) -> TensorDataset | Splits | Subset[tuple[torch.Tensor, ...]]:
        column = torch.arange(10.0)[:, None]
        whole = TensorDataset(column, column)
        other = TensorDataset(-column[:3], -column[:3])
        if not self.tensors:
            return Subset(whole, range(10))
        return [whole, Splits(whole, None, other), Splits(whole, other, other)][self.parts - 1]


def values(part: object) -> list[float]:
    return [] if part is None else [row[0].item() for row in part]  # type: ignore[attr-defined]


@settings(deadline=None)
@given(
    records=st.integers(1, 400),
    train=st.integers(1, 100),
    val=st.integers(0, 99),
    test=st.integers(0, 99),
)
def test_shares_never_take_more_than_there_is(
    records: int, train: int, val: int, test: int
) -> None:
    total = max(100, train + val + test)
    counts = Split(train=train / total, val=val / total, test=test / total).counts(records)
    assert all(count >= 0 for count in counts)
    assert sum(counts) <= records
    assert all(
        abs(count - share * records / total) <= 1
        for count, share in zip(counts, (train, val, test), strict=True)
    )


@settings(deadline=None)
@given(records=st.integers(1, 300), seed=st.integers(0, 2**64 - 1))
def test_an_order_holds_every_record_once(records: int, seed: int) -> None:
    assert sorted(draw_order(records, seed=seed).tolist()) == list(range(records))


def test_an_order_is_the_same_in_every_version() -> None:
    assert draw_order(10, seed=7).tolist() == FROZEN_ORDER


FROZEN_ORDER = [6, 3, 4, 9, 0, 2, 8, 7, 5, 1]


def test_every_place_is_equally_likely() -> None:
    """Chi-square over 2000 seeds, 11 degrees of freedom: the false-alarm rate is below 1e-6, and the seeds are fixed."""
    first = numpy.bincount([draw_order(12, seed=seed)[0] for seed in range(2000)], minlength=12)
    assert ((first - 2000 / 12) ** 2 / (2000 / 12)).sum() < 50


@pytest.mark.parametrize("tensors", [True, False])
def test_parts_are_disjoint_and_keep_the_order_of_the_data(tensors: bool) -> None:
    splits = Numbers(split=Split(train=0.5, val=0.3, test=0.2), tensors=tensors).splits(seed=0)
    assert [len(values(part)) for part in splits] == [5, 3, 2]
    assert sorted(value for part in splits for value in values(part)) == list(range(10))
    assert all(values(part) == sorted(values(part)) for part in splits)


def test_unused_shares_are_left_out() -> None:
    splits = Numbers(split=Split(train=0.5, val=0, test=0)).splits(seed=0)
    assert len(values(splits.train)) == 5
    assert splits.val is None
    assert splits.test is None


def test_own_test_records_are_kept_and_validation_comes_from_training() -> None:
    splits = Numbers(parts=2, split=Split(train=0.8, val=0.2, test=0)).splits(seed=0)
    assert values(splits.test) == [0, -1, -2]
    assert sorted(values(splits.train) + values(splits.val)) == list(range(10))


def test_data_that_is_split_already_stays_so() -> None:
    splits = Numbers(parts=3).splits(seed=0)
    assert values(splits.train) == list(range(10))
    assert values(splits.val) == [0, -1, -2]


def test_a_share_that_rounds_to_no_training_record_is_refused() -> None:
    with pytest.raises(SpecError, match=r"data\.split: expected at least one training record"):
        Numbers(split=Split(train=0.01, val=0.1, test=0.1)).train_count()


def test_stated_records_are_checked_against_the_data() -> None:
    with pytest.raises(
        UsageError, match=r"data\.records: expected the number of records in the data, 10, got 11"
    ):
        Numbers(records=11).splits(seed=0)


def test_shape_task_and_outputs_may_be_options_of_a_kind() -> None:
    class Stated(Data, kind="stated"):
        """Options with the names of the contract."""

        task: Task
        input_shape: tuple[int, ...] = (2,)
        outputs: int = 3

    made = Stated.from_data({"task": "multiclass", "input_shape": [4]})
    inputs, targets = made.synthetic(5)
    assert inputs.shape == (5, 4)
    assert targets.dtype == torch.int64
    assert "Stated" not in dir(sys.modules["dppipe.data.base"])
