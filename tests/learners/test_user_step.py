"""User-level steps: a user's gradients are averaged and clipped once, however many records there are and wherever they stand."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from private_steps import private_step
from torch import nn
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.clipping import Flat, Microbatch
from dppipe.data.reading.users import with_users
from dppipe.engine import Engine
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.learners.records.unit_index import UserIndex
from dppipe.learners.sgd.plain_step import PlainStep
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs.ledger import Ledger
from dppipe.sampling import Poisson, User

RECORDS, USERS = 60, 17


class Silent:
    """Noise that isn't there: shows the sum underneath."""

    def add_(self, flat, std, *, over=1.0):
        return flat.div_(over)


def loss(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    x, y = batch
    return model(x).sum(1) * y


def step(tmp_path, *, rate=1.0, at_most=64, physical=7, scale=1.0, seed=3, ranks=None):
    budget = Budget(epsilon=1e6, delta=1e-5)
    sampler = User(sample_rate=rate, max_records_per_user=at_most)
    parts = PrivateParts(sampler, Flat(), Constant(noise_multiplier=1.0), Rdp(), budget)
    plan = plan_privacy(parts, name="t", records=USERS, steps=5)
    generator = torch.Generator().manual_seed(0)
    dataset = TensorDataset(
        torch.randn(RECORDS, 3, generator=generator) * scale,
        torch.randn(RECORDS, generator=generator),
    )
    owners = numpy.concatenate(
        [numpy.arange(USERS), numpy.random.default_rng(0).integers(0, 5, RECORDS - USERS)]
    )
    torch.manual_seed(0)
    model = nn.Linear(3, 4)
    loader = PrivateLoader(dataset, sampler=sampler, index=UserIndex(owners, at_most=at_most))
    loader.physical_batch_size = physical
    loader.arm(plan, stream=Keystream(stream_key("sampler", seed=seed)), ranks=ranks or Ranks())
    ledger = Ledger.create(tmp_path / "ledger.jsonl", plan=plan.to_json())
    private = private_step(
        parts, "zero_out", plan, Engine(model, loss, parts.clipping), ledger, Silent(), {}
    )
    return private, LogicalBatch(loader), dataset, owners, model


def reference(model, dataset, owners, users, *, at_most):
    """One user at a time, in float64: average, clip, add."""
    model = model.double()
    total = [torch.zeros_like(p) for p in model.parameters()]
    for user in users:
        rows = numpy.flatnonzero(owners == user)[:at_most]
        x, y = (tensor[rows].double() for tensor in dataset.tensors)
        gradients = torch.autograd.grad(loss(model, [x, y]).mean(), list(model.parameters()))
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        for t, g in zip(total, gradients, strict=True):
            t += g * min(1.0, 1.0 / norm)
    return total


@pytest.mark.parametrize("at_most", [1, 3, 64])
@pytest.mark.parametrize("physical", [1, 7, 1000])
def test_the_sum_is_that_of_one_clipped_average_per_user(tmp_path, at_most, physical):
    private, batch, dataset, owners, model = step(tmp_path, at_most=at_most, physical=physical)
    given_sum = private(batch, place=lambda piece: piece)
    wanted = reference(model, dataset, owners, range(USERS), at_most=at_most)
    for got, want in zip(given_sum.values(), wanted, strict=True):
        torch.testing.assert_close(got.double() * USERS, want, rtol=1e-5, atol=1e-6)


def test_only_the_drawn_users_count(tmp_path):
    private, batch, dataset, owners, model = step(tmp_path, rate=0.4)
    users = private.parts.sampler.draw(
        USERS, rate=0.4, generator=Keystream(stream_key("sampler", seed=3))
    )
    assert 0 < len(users) < USERS
    given_sum = private(batch, place=lambda piece: piece)
    for got, want in zip(
        given_sum.values(), reference(model, dataset, owners, users, at_most=64), strict=True
    ):
        torch.testing.assert_close(got.double() * USERS * 0.4, want, rtol=1e-5, atol=1e-6)


def test_all_the_records_of_one_user_move_the_sum_by_at_most_the_bound(tmp_path):
    private, batch, dataset, owners, _ = step(tmp_path, scale=1e6)
    with_user = private(batch, place=lambda piece: piece)
    largest = numpy.bincount(owners).argmax()
    dataset.tensors[1][owners == largest] = 0.0
    without = private(batch, place=lambda piece: piece)
    change = math.sqrt(
        sum(
            float((a - b).square().sum())
            for a, b in zip(with_user.values(), without.values(), strict=True)
        )
    )
    assert 0 < change * USERS <= 1 + 1e-5


def test_two_ranks_share_users_not_records(tmp_path):
    parts = []
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        private, batch, *_ = step(tmp_path / str(rank), ranks=Ranks(rank, 2))
        parts.append(private(batch, place=lambda piece: piece))
    (tmp_path / "one").mkdir()
    private, batch, *_ = step(tmp_path / "one")
    for first, second, whole in zip(
        parts[0].values(),
        parts[1].values(),
        private(batch, place=lambda p: p).values(),
        strict=True,
    ):
        torch.testing.assert_close(first + second, whole, rtol=1e-5, atol=1e-6)


def test_the_baseline_averages_users_too(tmp_path):
    private, batch, dataset, owners, model = step(tmp_path)
    plain = PlainStep(private.plan, model, loss)(batch, place=lambda piece: piece)
    wanted = [torch.zeros_like(p) for p in model.parameters()]
    for user in range(USERS):
        x, y = (tensor[owners == user] for tensor in dataset.tensors)
        for total, gradient in zip(
            wanted,
            torch.autograd.grad(loss(model, [x, y]).mean(), list(model.parameters())),
            strict=True,
        ):
            total += gradient / USERS
    for got, want in zip(plain.values(), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=50)
@given(
    owners=st.lists(st.integers(0, 6), min_size=1, max_size=40),
    at_most=st.integers(1, 9),
    data=st.data(),
)
def test_the_index_gives_the_first_records_of_each_user(owners, at_most, data):
    numbers = numpy.unique(owners, return_inverse=True)[1]
    index = UserIndex(numbers, at_most=at_most)
    drawn = numpy.array(
        data.draw(st.lists(st.integers(0, index.count - 1), unique=True)), dtype=numpy.int64
    )
    wanted = [row for user in drawn for row in numpy.flatnonzero(numbers == user)[:at_most]]
    assert index.records(drawn).tolist() == wanted
    assert index.unit_of(index.records(drawn)).tolist() == [numbers[row] for row in wanted]


def test_a_user_is_no_unit_where_records_are_drawn():
    budget = Budget(epsilon=3.0, delta=1e-5, unit="user")
    parts = PrivateParts(
        Poisson(sample_rate=0.1), Flat(), Constant(noise_multiplier=1.0), Rdp(), budget
    )
    with pytest.raises(PrivacyRefusal, match="sampler: user"):
        plan_privacy(parts, name="t", records=100, steps=3)


def test_a_clipper_that_averages_records_of_several_users_is_refused():
    budget = Budget(epsilon=3.0, delta=1e-5)
    parts = PrivateParts(
        User(sample_rate=0.1), Microbatch(), Constant(noise_multiplier=1.0), Rdp(), budget
    )
    with pytest.raises(PrivacyRefusal, match="single units"):
        plan_privacy(parts, name="t", records=100, steps=3)


def test_the_callback_asks_the_data_set_for_its_users(tmp_path):
    private = dppipe.DPCallback(
        sampler=User(sample_rate=0.1), budget=dppipe.Budget(epsilon=4.0, delta=1e-5)
    )
    dataset = TensorDataset(torch.zeros(5, 2), torch.zeros(5))
    with pytest.raises(UsageError, match="whose each record is"):
        private.loader(dataset)
    assert private.loader(with_users(dataset, ["a", "b", "a", "c", "c"])).units == 3


def test_a_run_of_a_spec_protects_users(run):
    data = (
        "data={kind: synthetic, size: 1000, features: 8, classes: 3, users: 300, holdout: public}"
    )
    done = run(
        data,
        "sampler={kind: user, sample_rate: 0.1, max_records_per_user: 4}",
        "train.steps=40",
        "noise.noise_multiplier=1",
    )
    assert done.exit_code == 0, done.output
    assert {row["unit"] for row in done.rows} == {"user"}
    assert done.summary["unit"] == "user"
    said = (done.path / "privacy.md").read_text()
    assert "one user" in said
    assert "| training users (public) |" in said
    assert done.summary["metrics"]["val/accuracy"] > 0.7


@pytest.mark.parametrize(
    ("changes", "code", "place"),
    [
        (["budget.unit=user"], 3, "budget.unit"),
        (["budget.unit=patient"], 2, "budget.unit"),  # whose records nobody would count together
        (["data.users=100"], 2, "data.users"),
        (["sampler={kind: user, sample_rate: 0.1}"], 2, "data.users"),
        (
            ["sampler={kind: user, sample_rate: 0.1}", "data.users=100", "clipping=microbatch"],
            3,
            "clipping.kind",
        ),
        (
            ["sampler={kind: user, sample_rate: 0.1}", "data.users=100", "budget.delta=0.02"],
            2,
            "budget.delta",
        ),
    ],
)
def test_what_does_not_go_with_users_is_refused_before_anything_is_read(run, changes, code, place):
    done = run(*changes)
    assert done.exit_code == code, done.output
    assert place in done.output
    assert not done.path.exists()


def test_under_add_remove_the_number_of_users_is_neither_asked_for_nor_said(tmp_path):
    rows = "".join(f"{row % 7},{row % 23},{row % 2}\n" for row in range(200))
    (tmp_path / "visits.csv").write_text("age,patient,readmitted\n" + rows)
    (tmp_path / "spec.yaml").write_text(f"""
version: 1
name: secret
data: {{kind: csv, path: {tmp_path}/visits.csv, user: patient, numeric: [{{column: age}}],
       target: {{column: readmitted, classes: [0, 1]}}, holdout: public}}
model: logistic
optimizer: {{kind: sgd, lr: 0.1}}
sampler: {{kind: user, sample_rate: 0.1, expected_batch_size: 2}}
noise: {{kind: constant, noise_multiplier: 2.0}}
accountant: rdp
budget: {{epsilon: 8.0, delta: 1.0e-3, relation: add_remove}}
train: {{steps: 5}}
""")
    words = ["run", str(tmp_path / "spec.yaml"), "--run-dir", str(tmp_path / "run")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert '"records": null' in (tmp_path / "run" / "plan.json").read_text()
    said = CliRunner().invoke(
        app, [*words[:2], "--set", "data.users=23", "--run-dir", str(tmp_path / "other")]
    )
    assert said.exit_code == 2
    assert "secret" in said.output
