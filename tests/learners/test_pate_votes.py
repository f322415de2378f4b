"""Votes of teachers: one unit moves one teacher's, and a teacher that fails gives none."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from dppipe.data import Synthetic
from dppipe.data.reading.users import with_users
from dppipe.errors import PrivacyRefusal
from dppipe.learners.blocks.reading import Block, read_blocks
from dppipe.learners.job import Job
from dppipe.learners.pate import Pate
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.learners.teaching import teachers, votes
from dppipe.learners.teaching.options import Student, Teacher
from dppipe.learners.teaching.teachers import ridge_scores
from dppipe.learners.teaching.training import scores_at, train_network
from dppipe.learners.teaching.vote_bounds import MOVED_LARGEST, MOVED_VOTES
from dppipe.learners.teaching.votes import Voting, confident_places, elect, votes_of
from dppipe.models import Mlp
from dppipe.optim import Adam
from dppipe.privacy.release import PublicFacts

CLASSES = 3
TEACHERS = 3
NUMBERS = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([0.0, 1e308, -1e308, 1e-308, 5e-324, 1e9, math.nan, math.inf]),
)
RECORDS = st.tuples(
    st.lists(NUMBERS, min_size=2, max_size=2), st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, 0.5])
)
INPUTS = torch.tensor([[0.0, 0.0], [1.0, 2.0], [-2.0, 0.5], [3.0, -3.0], [1e30, 1.0]])
RIDGE = Teacher()
NETWORK = Teacher(
    kind="network",
    model=Mlp(hidden=(4,)),
    optimizer=Adam(lr=0.1),
    train={"epochs": 2, "batch_size": 2},
)


def facts_of(relation: Any = "zero_out", **others: Any) -> PublicFacts:
    given: dict[str, Any] = {
        "records": None if relation == "add_remove" else 9,
        "unit": "example",
        "relation": relation,
        "input_shape": (2,),
        "outputs": CLASSES,
        "task": "multiclass",
        "public_inputs": len(INPUTS),
    }
    return PublicFacts(**given | others)


def job_of(dataset: Dataset[Any], facts: PublicFacts, *, is_open: bool = True) -> Job:
    by_users = facts.unit == "user"
    records = TrainingRecords(dataset, by_users=by_users, may_read=lambda: is_open)
    return Job(facts, nn.Linear(2, facts.outputs), records, Path(), INPUTS)


def dataset_of(records: list[Any], owners: list[int] | None = None) -> TensorDataset:
    inputs = torch.tensor([x for x, _ in records], dtype=torch.float64).reshape(-1, 2)
    made = TensorDataset(inputs, torch.tensor([y for _, y in records], dtype=torch.float64))
    return made if owners is None else with_users(made, np.array(owners))


def counts_of(dataset: Dataset[Any], facts: PublicFacts, teacher: Teacher = RIDGE) -> Tensor:
    voting = Voting(job_of(dataset, facts), teacher, teachers=TEACHERS, inputs=INPUTS)
    return voting.counts_at(torch.arange(len(INPUTS)), len(INPUTS))


def assert_bounded(one: Tensor, two: Tensor, relation: Any) -> None:
    """Compare how far each query has moved with what is stated, as accountants count it."""
    facts = facts_of(relation)
    moved = one - two
    times = 2 if relation == "replace_one" else 1
    for aggregator, order in (("gnmax", 2), ("lnmax", 1)):
        learner = Pate(queries=1, aggregator=aggregator, public=Synthetic())
        stated = times * learner.vote_query(facts, scale=1.0).sensitivity
        assert float(torch.linalg.vector_norm(moved, order, dim=1).max()) <= stated
    confident = Pate(queries=1, aggregator="confident_gnmax", public=Synthetic())
    stated = times * confident.confidence_query(facts, scale=1.0).sensitivity
    assert float((one.amax(1) - two.amax(1)).abs().max()) <= stated


@pytest.mark.parametrize("teacher", [RIDGE, NETWORK], ids=["ridge", "network"])
@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_one_record_moves_the_votes_by_at_most_the_sensitivity(
    relation: Any, teacher: Teacher
) -> None:
    facts = facts_of(relation)

    @settings(max_examples=20 if teacher is RIDGE else 4, deadline=None)
    @given(st.lists(RECORDS, min_size=1, max_size=9), RECORDS, st.integers(0, 8))
    def check(records: list[Any], another: Any, place: int) -> None:
        place = place % len(records)
        if relation == "add_remove":
            changed = [*records[:place], *records[place + 1 :]]
        else:
            new = ([math.nan, 0.0], 0.0) if relation == "zero_out" else another
            changed = [*records[:place], new, *records[place + 1 :]]
        before = counts_of(dataset_of(records), facts, teacher)
        after = counts_of(dataset_of(changed), facts, teacher)
        assert_bounded(before, after, relation)
        assert float(before.sum(1).max()) <= TEACHERS

    check()


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_all_records_of_a_user_move_one_teacher(relation: Any) -> None:
    owners = [0, 0, 0, 0, 1, 2, 3, 4, 4]
    facts = facts_of(relation, unit="user", records=None if relation == "add_remove" else 5)

    @settings(max_examples=20, deadline=None)
    @given(st.lists(RECORDS, min_size=9, max_size=9), st.lists(RECORDS, min_size=4, max_size=4))
    def check(records: list[Any], others: list[Any]) -> None:
        before = counts_of(dataset_of(records, owners), facts)
        if relation == "add_remove":
            after = counts_of(dataset_of(records[4:], owners[4:]), facts)
        else:
            gone = [([math.nan, 0.0], 0.0)] * 4
            new = gone if relation == "zero_out" else others
            after = counts_of(dataset_of([*new, *records[4:]], owners), facts)
        assert_bounded(before, after, relation)

    check()


def test_the_bounds_are_those_of_every_pair_of_ballots() -> None:
    # All that one teacher can do, beside whatever three others have voted.
    ballots = [*np.eye(CLASSES), np.zeros(CLASSES)]
    worst = {"gaussian": 0.0, "laplace": 0.0, "largest": 0.0}
    for others in itertools.combinations_with_replacement(ballots, 3):
        for one, two in itertools.product(ballots, ballots):
            before, after = sum(others) + one, sum(others) + two
            worst["gaussian"] = max(worst["gaussian"], float(np.linalg.norm(before - after)))
            worst["laplace"] = max(worst["laplace"], float(np.abs(before - after).sum()))
            worst["largest"] = max(worst["largest"], abs(float(before.max() - after.max())))
    assert worst["gaussian"] == pytest.approx(math.sqrt(2))
    assert worst["gaussian"] <= MOVED_VOTES["gaussian"] <= math.sqrt(2) * (1 + 1e-11)
    assert worst["laplace"] == MOVED_VOTES["laplace"]
    assert worst["largest"] == MOVED_LARGEST


def learnable(size: int = 90) -> TensorDataset:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(size, 2, generator=generator, dtype=torch.float64)
    labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()
    return TensorDataset(inputs, labels)


def blocks_in(dataset: TensorDataset, facts: PublicFacts) -> list[Block]:
    records = TrainingRecords(dataset, by_users=False, may_read=lambda: True)
    return list(read_blocks(records, facts, count=TEACHERS))


def rows_in(block: Block, dataset: TensorDataset) -> list[int]:
    """Return the places of a block's records in the dataset."""
    return [int((dataset.tensors[0] == row).all(1).nonzero()[0]) for row in block.inputs]


@pytest.mark.parametrize("teacher", [RIDGE, NETWORK], ids=["ridge", "network"])
def test_a_teacher_sees_its_own_block_and_keeps_nothing_for_the_next(teacher: Teacher) -> None:
    facts = facts_of(records=90)
    usual = learnable()
    before = [votes_of(block, INPUTS, teacher, facts) for block in blocks_in(usual, facts)]
    assert sum(before).equal(counts_of(usual, facts, teacher))
    changed = 0
    for block in blocks_in(usual, facts):
        assert len(block.inputs) == 30
        inputs, labels = usual.tensors
        others = (labels + 1) % CLASSES  # all labels but the block's own are other ones
        others[rows_in(block, usual)] = labels[rows_in(block, usual)]
        found = blocks_in(TensorDataset(inputs, others), facts)
        after = [votes_of(one, INPUTS, teacher, facts) for one in found]
        assert after[block.number].equal(before[block.number])
        changed += not sum(after).equal(sum(before))
    assert changed


@pytest.mark.parametrize("teacher", [RIDGE, NETWORK], ids=["ridge", "network"])
def test_many_teachers_count_as_their_blocks_do_one_by_one(teacher: Teacher) -> None:
    # Each block alone, the others empty: nothing of a block reaches another one's teacher.
    facts = facts_of(records=90)
    usual = learnable()
    total = torch.zeros(len(INPUTS), CLASSES, dtype=torch.float64)
    for block in blocks_in(usual, facts):
        rows = rows_in(block, usual)
        alone = torch.full_like(usual.tensors[0], math.nan)
        alone[rows] = usual.tensors[0][rows]
        total += counts_of(TensorDataset(alone, usual.tensors[1]), facts, teacher)
    assert total.equal(counts_of(usual, facts, teacher))


FAILURES: dict[str, Any] = {
    "raises": lambda *_: (_ for _ in ()).throw(RuntimeError("the name of a person")),
    "isn't finite": lambda *_: torch.full((len(INPUTS), CLASSES), math.nan),
    "is partly infinite": lambda *_: torch.tensor([[0.0, math.inf, 1.0]] * len(INPUTS)),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_teacher_that_fails_gives_no_vote_and_says_nothing(
    failure: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(votes, "teacher_scores", FAILURES[failure])
    assert float(counts_of(learnable(), facts_of(records=90)).abs().sum()) == 0
    assert capsys.readouterr() == ("", "")


def test_an_empty_block_gives_no_vote() -> None:
    facts = facts_of("add_remove")
    assert float(counts_of(dataset_of([]), facts).abs().sum()) == 0
    assert float(counts_of(dataset_of([([1.0, 2.0], 1.0)]), facts).sum(1).max()) == 1


def test_a_ballot_has_one_vote_at_most_and_classes_are_those_of_the_spec() -> None:
    facts = facts_of(records=90)
    one = Block(0, torch.ones(4, 2, dtype=torch.float64), torch.zeros(4, dtype=torch.int64))
    found = votes_of(one, INPUTS, RIDGE, facts)
    assert found.shape == (len(INPUTS), CLASSES)  # though all labels are 0
    assert found.sum(1).tolist() == [1.0] * len(INPUTS)
    binary = replace(facts, task="binary", outputs=1)
    assert votes_of(one, INPUTS, RIDGE, binary).shape == (len(INPUTS), 2)
    assert votes_of(one, INPUTS, NETWORK, binary).shape == (len(INPUTS), 2)
    only = TensorDataset(torch.ones(6, 2), torch.zeros(6))
    assert counts_of(only, facts).shape == (len(INPUTS), CLASSES)


def test_counts_are_computed_once_and_inside_the_gate_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained: list[int] = []
    usual = teachers.teacher_scores

    def noted(block: Block, *others: Any) -> Tensor:
        trained.append(block.number)
        return usual(block, *others)

    monkeypatch.setattr(votes, "teacher_scores", noted)
    state = {"open": True}
    job = job_of(learnable(), facts_of(records=90))
    records = TrainingRecords(learnable(), by_users=False, may_read=lambda: state["open"])
    voting = Voting(replace(job, records=records), RIDGE, teachers=TEACHERS, inputs=INPUTS)
    first = voting.largest_counts()
    first += 1000.0  # as noise is added: in place
    counts = voting.counts_at(torch.tensor([1]), 3)
    assert float(counts.max()) <= TEACHERS
    assert counts[1:].tolist() == [[0.0] * CLASSES] * 2
    counts += 1000.0
    assert float(voting.counts_at(torch.tensor([1]), 3).max()) <= TEACHERS
    assert trained == [0, 1, 2]
    state["open"] = False
    with pytest.raises(PrivacyRefusal, match="records"):
        voting.counts_at(torch.tensor([1]), 3)


def test_ridge_teachers_solve_the_normal_equations_whichever_way_is_shorter() -> None:
    generator = torch.Generator().manual_seed(5)
    for records in (3, 40):
        inputs = 7 * torch.randn(records, 6, generator=generator, dtype=torch.float64)
        labels = torch.arange(records) % CLASSES
        public = torch.randn(8, 6, generator=generator, dtype=torch.float64)
        found = ridge_scores(Block(0, inputs, labels), public, classes=CLASSES, regularization=0.5)
        length = math.sqrt(float(inputs.square().sum(1).mean()))
        rows = np.hstack([inputs.numpy(), np.full((records, 1), length)])
        wanted = np.eye(CLASSES)[labels.numpy()] - 1 / CLASSES
        square = rows.T @ rows + 0.5 * length**2 * np.eye(7)
        weights = np.linalg.solve(square, rows.T @ wanted)
        expected = np.hstack([public.numpy(), np.full((8, 1), length)]) @ weights
        assert np.allclose(found.numpy(), expected, atol=1e-9)


def test_places_and_labels_follow_from_noisy_counts_alone() -> None:
    largest = torch.tensor([5.0, 2.0, 7.0, 5.0, 9.0])
    assert confident_places(largest, threshold=5.0, most=3).tolist() == [0, 2, 3]
    assert confident_places(largest, threshold=50.0, most=3).tolist() == []
    assert elect(torch.tensor([[1.0, 3.0, 2.0], [-1.0, -3.0, -2.0]])).tolist() == [1, 0]


@pytest.mark.parametrize("task", ["multiclass", "binary"])
@pytest.mark.parametrize(
    "student",
    [Student(), Student(optimizer=Adam(lr=0.1), train={"epochs": 40, "batch_size": 16})],
    ids=["lbfgs", "adam"],
)
def test_a_student_learns_from_labels_and_leaves_the_generators_alone(
    task: str, student: Student
) -> None:
    inputs, labels = learnable(300).tensors
    labels = labels if task == "multiclass" else (labels > 0).long()
    outputs = CLASSES if task == "multiclass" else 1
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, outputs))
    untouched = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.get_rng_state()
    options: Any = {"regularization": 0.01, "task": task, "seed": 0}
    train_network(network, inputs[:0], labels[:0], student, **options)
    for name, value in network.state_dict().items():
        assert value.equal(untouched[name])
    train_network(network, inputs, labels, student, **options)
    assert torch.get_rng_state().equal(state)
    found = scores_at(network, inputs, task=task).argmax(1)
    assert float((found == labels).double().mean()) > 0.9
