"""Blocks of training records: disjoint, by a public rule, and moved by no other record."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import Dataset, TensorDataset

from dppipe.data import Split
from dppipe.data.reading.users import with_users
from dppipe.data.reading.validity import with_valid
from dppipe.data.splitting.by_hash import draw_parts
from dppipe.errors import PrivacyRefusal
from dppipe.learners.blocks.assignment import NO_BLOCK, block_numbers
from dppipe.learners.blocks.reading import Block, read_blocks
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.privacy.release import PublicFacts

RELATIONS = ["zero_out", "add_remove", "replace_one"]


def facts_of(relation: str, **others: Any) -> PublicFacts:
    given: dict[str, Any] = {
        "records": None if relation == "add_remove" else 100,
        "unit": "example",
        "relation": relation,
        "input_shape": (2,),
        "outputs": 3,
        "task": "multiclass",
        "seed": 7,
    }
    return PublicFacts(**given | others)


def tensors(values: list[float]) -> TensorDataset:
    column = torch.tensor(values, dtype=torch.float64)[:, None]
    labels = torch.nan_to_num(column[:, 0], 0, 0, 0).to(torch.int64) % 3
    return TensorDataset(torch.cat([column, column + 0.5], dim=1), labels)


class Listed(Dataset[Any]):
    """Records from a list; an exception among them is raised when it is read."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.records[index], Exception):
            raise self.records[index]
        return self.records[index]


def listed(values: list[int]) -> Listed:
    return Listed([(torch.tensor([float(value), 0.0]), value % 3) for value in values])


def blocks_of(dataset: Any, facts: PublicFacts, count: int, *, open_: bool = True) -> list[Block]:
    by_users = facts.unit == "user"
    records = TrainingRecords(dataset, by_users=by_users, may_read=lambda: open_)
    return list(read_blocks(records, facts, count=count))


values = st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=40, unique=True)
seeds = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("relation", RELATIONS)
@settings(deadline=None, max_examples=30)
@given(values=values, count=st.integers(1, 50), seed=seeds)
def test_a_record_is_in_exactly_one_block(
    relation: str, values: list[float], count: int, seed: int
) -> None:
    found = blocks_of(tensors(values), facts_of(relation, seed=seed), count)
    assert [block.number for block in found] == list(range(count))
    seen = [float(row[0]) for block in found for row in block.inputs]
    assert sorted(seen) == sorted(values)
    for block in found:
        assert [int(value) % 3 for value in block.inputs[:, 0]] == block.targets.tolist()


@settings(deadline=None, max_examples=30)
@given(values=values, gone=st.integers(0, 39), count=st.integers(1, 20), seed=seeds)
def test_removing_a_record_changes_its_own_block_alone(
    values: list[float], gone: int, count: int, seed: int
) -> None:
    gone %= len(values)
    facts = facts_of("add_remove", seed=seed)
    before = blocks_of(tensors(values), facts, count)
    after = blocks_of(tensors(values[:gone] + values[gone + 1 :]), facts, count)
    changed = [
        old.number
        for old, new in zip(before, after, strict=True)
        if not torch.equal(old.inputs, new.inputs)
    ]
    (own,) = block_numbers(tensors([values[gone]]), facts, count=count).tolist()
    assert changed == [own]


@settings(deadline=None, max_examples=30)
@given(count=st.integers(1, 12), users=st.lists(st.integers(0, 9), min_size=1, max_size=40))
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_users_records_are_in_one_block_and_removing_a_user_moves_no_other(
    relation: str, count: int, users: list[int]
) -> None:
    facts = facts_of(relation, unit="user")

    def numbers(owners: list[int]) -> dict[int, set[int]]:
        dataset = with_users(tensors([float(row) for row in range(len(owners))]), owners)
        found: dict[int, set[int]] = {}
        blocks = block_numbers(dataset, facts, count=count).tolist()
        for owner, block in zip(owners, blocks, strict=True):
            found.setdefault(owner, set()).add(block)
        return found

    before = numbers(users)
    assert all(len(blocks) == 1 for blocks in before.values())
    rest = [user for user in users if user != users[0]]
    if relation == "add_remove" and rest:
        assert numbers(rest) == {user: before[user] for user in rest}


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
@pytest.mark.parametrize("unit", ["example", "user"])
def test_sizes_are_equal_up_to_one_where_the_number_of_units_is_public(
    relation: str, unit: str
) -> None:
    for units, count in [(10, 3), (12, 4), (2, 5), (101, 7)]:
        each = 1 if unit == "example" else 2
        owners = numpy.repeat(numpy.arange(units), each)
        dataset = with_users(tensors(list(range(units * each))), owners)
        found = block_numbers(dataset, facts_of(relation, unit=unit), count=count)
        sizes = [len(set(owners[found == number])) for number in range(count)]
        assert sum(sizes) == units
        assert max(sizes) - min(sizes) <= 1


BAD: dict[str, Any] = {
    "raises": ValueError("no"),
    "another shape": (torch.zeros(5), 0),
    "not finite": (torch.tensor([float("nan"), 0.0]), 0),
    "infinite": (torch.tensor([float("inf"), 0.0]), 0),
    "another label": (torch.tensor([3.0, 0.0]), 9),
    "not data": (object(), 0),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_record_keeps_its_place_and_moves_no_other(relation: str, bad: str) -> None:
    dataset = listed(list(range(20)))
    facts = facts_of(relation)
    before = blocks_of(dataset, facts, 4)
    (own,) = [block.number for block in before if 11.0 in block.inputs[:, 0]]
    dataset.records[11] = BAD[bad]
    for old, new in zip(before, blocks_of(dataset, facts, 4), strict=True):
        kept = old.inputs[:, 0] != 11.0
        assert torch.equal(new.inputs, old.inputs[kept])
        assert torch.equal(new.targets, old.targets[kept])
        assert bool(kept.all()) == (old.number != own)


def test_records_that_are_all_bad_leave_every_block_empty() -> None:
    for relation in RELATIONS:
        found = blocks_of(Listed([ValueError()] * 5), facts_of(relation), 3)
        assert [len(block.inputs) for block in found] == [0, 0, 0]
        assert all(block.inputs.shape == (0, 2) for block in found)


def test_records_marked_as_invalid_are_in_no_block_where_a_hash_decides() -> None:
    dataset = with_valid(tensors([1, 2, 3]), [True, False, True])
    found = block_numbers(dataset, facts_of("add_remove"), count=2).tolist()
    assert found[1] == NO_BLOCK
    usual = block_numbers(tensors([1, 2, 3]), facts_of("add_remove"), count=2).tolist()
    assert [found[0], found[2]] == [usual[0], usual[2]]
    seen = blocks_of(dataset, facts_of("zero_out"), 2)
    assert sum(len(block.inputs) for block in seen) == 2


@pytest.mark.parametrize("relation", RELATIONS)
def test_blocks_follow_the_public_seed_and_no_label(relation: str) -> None:
    dataset = tensors(list(range(200)))
    first = block_numbers(dataset, facts_of(relation, seed=1), count=5)
    assert (first == block_numbers(dataset, facts_of(relation, seed=1), count=5)).all()
    other = block_numbers(dataset, facts_of(relation, seed=2), count=5)
    # By chance 40 of 200 agree; 85 or more have a probability below 1e-12.
    assert (first == other).sum() < 85
    # Each block has every label: the probability that one lacks one of three is below 1e-6 by hash
    # (15 (2/3)^200 and sizes of 20 or more), and these seeds are fixed.
    for number in range(5):
        assert set((numpy.flatnonzero(first == number) % 3).tolist()) == {0, 1, 2}
    if relation != "add_remove":
        relabelled = TensorDataset(dataset.tensors[0], dataset.tensors[1] * 0)
        again = block_numbers(relabelled, facts_of(relation, seed=1), count=5)
        assert (first == again).all()


def test_blocks_by_hash_are_independent_of_the_split() -> None:
    dataset = tensors(list(range(3000)))
    train, _, _ = draw_parts(dataset, Split(train=0.5, val=0.25, test=0.25), by_users=False, seed=7)
    found = block_numbers(dataset, facts_of("add_remove"), count=2)[train]
    # Were the numbers the split's, all would be in block 0. A share that is 0.1 off 0.5 is more
    # than seven standard deviations off.
    assert abs((found == 0).mean() - 0.5) < 0.1


@pytest.mark.parametrize("relation", RELATIONS)
def test_reading_outside_of_the_gates_computation_is_refused(relation: str) -> None:
    with pytest.raises(PrivacyRefusal, match="inside a gate's computation"):
        blocks_of(tensors([1.0, 2.0]), facts_of(relation), 2, open_=False)
    window = [True]
    records = TrainingRecords(tensors([1.0, 2.0]), by_users=False, may_read=lambda: window[0])
    begun = read_blocks(records, facts_of(relation), count=2)
    next(begun)
    window[0] = False
    with pytest.raises(PrivacyRefusal, match="inside a gate's computation"):
        next(begun)


class Drawing(Dataset[Any]):
    """Records that draw from each global generator, as augmentation does; one draws more."""

    def __init__(self, extra: int) -> None:
        self.extra = extra

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        for _ in range(self.extra if index == 2 else 1):
            drawn = [random.random() + numpy.random.rand(), float(torch.rand(()))]
        return torch.tensor(drawn), index % 3


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_a_record_that_draws_random_numbers_changes_no_other(relation: str) -> None:
    before = blocks_of(Drawing(1), facts_of(relation), 6)
    after = blocks_of(Drawing(5), facts_of(relation), 6)
    same = [torch.equal(old.inputs, new.inputs) for old, new in zip(before, after, strict=True)]
    assert same.count(False) == 1
