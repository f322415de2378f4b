"""Samplers that are charged by the epoch: what is drawn, what is charged, and what an interruption costs."""

from __future__ import annotations

import json
import math
import os
import signal
from dataclasses import replace

import numpy
import pytest
from private_steps import two_ranks
from secret_streams import secret_stream
from torch import nn
from typer.testing import CliRunner
from written_runs import write_run

from dppipe.cli.app import app
from dppipe.clipping import Flat
from dppipe.engine import Engine
from dppipe.errors import PrivacyRefusal
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import PrivateLoader
from dppipe.lightning.fit import make_private_step, open_gate
from dppipe.noise import Constant, Linear
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants import Gdp, Pld, Rdp, Zcdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.gaussian import gaussian_epsilon
from dppipe.runs.directory import RunDirectory
from dppipe.runs.follower import Follower
from dppipe.runs.record import RunRecord
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import BallsInBins, Poisson, Shuffle

SHUFFLE = [
    "sampler={kind: shuffle, expected_batch_size: 150}",
    "noise.noise_multiplier=4",
    "train={epochs: 4}",
    "accountant=gdp",
]
"""800 training records: 6 batches an epoch, the last of 50 records."""


def plan(
    sampler=None,
    *,
    noise=None,
    accountant=None,
    epsilon=100.0,
    relation="zero_out",
    records=800,
    **length,
):
    budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)
    chosen = (
        sampler or Shuffle(expected_batch_size=150),
        Flat(),
        noise or Constant(noise_multiplier=4.0),
        accountant or Gdp(),
    )
    return plan_privacy(PrivateParts(*chosen, budget), name="t", records=records, **length)


@pytest.mark.parametrize(
    ("z", "epochs", "expected"), [(1.0, 10, 17.85659), (2.0, 10, 7.51128), (5.0, 20, 3.84861)]
)
@pytest.mark.parametrize("accountant", [Gdp(), Pld()], ids=lambda each: each.kind)
def test_epochs_cost_what_unsampled_releases_do(z, epochs, expected, accountant):
    made = plan(noise=Constant(noise_multiplier=z), accountant=accountant, epochs=epochs)
    assert made.epsilon == pytest.approx(expected, abs=1e-4)
    assert made.epsilon == pytest.approx(gaussian_epsilon(z / math.sqrt(epochs), 1e-5), rel=1e-6)
    assert made.steps == 6 * epochs


def test_replacing_a_record_doubles_mu():
    doubled = plan(relation="replace_one", epochs=4).epsilon
    assert doubled == pytest.approx(gaussian_epsilon(4.0 / (2 * math.sqrt(4)), 1e-5), rel=1e-6)


def test_a_shuffled_plan_is_never_charged_as_sampled():
    """Poisson sampling at the same rate and noise would claim far less; the claim here is that of no sampling at all."""
    from dppipe.sampling import Poisson

    shuffled = plan(accountant=Pld(), epochs=1).epsilon
    sampled = plan(Poisson(expected_batch_size=150), accountant=Pld(), epochs=1).epsilon
    assert shuffled == pytest.approx(gaussian_epsilon(4.0, 1e-5), rel=1e-6)
    assert sampled < 0.6 * shuffled


@pytest.mark.parametrize(
    "length", [{"epochs": 50}, {"steps": 301}, {}], ids=["epochs", "steps", "until budget"]
)
def test_a_budget_admits_whole_epochs_only(length):
    made = plan(epsilon=2.0, **length)
    paid = math.floor((0.5015516900 * 4) ** 2)  # mu for (2, 1e-5), times z, squared
    assert made.steps == 6 * paid
    assert made.ends_at == "budget"
    assert made.epsilon <= 2.0
    assert [made.charges(step) for step in range(1, 13)] == [1, 0, 0, 0, 0, 0] * 2


def test_every_step_of_an_epoch_is_claimed_at_the_epochs_cost():
    made = plan(epochs=3)
    for step in range(1, 19):
        assert made.epsilon_after(step) == pytest.approx(
            gaussian_epsilon(4 / math.sqrt(math.ceil(step / 6)), 1e-5), rel=1e-9
        )


def test_noise_moves_from_epoch_to_epoch_and_lands_on_the_budget():
    made = plan(noise=Linear(end=0.5), epsilon=3.0, steps=20)
    assert len({made.noise_multiplier(step) for step in range(1, 7)}) == 1
    assert [run.steps for run in made.noise] == [6, 6, 6, 2]
    mu = math.sqrt(sum(run.noise_multiplier**-2 for run in made.noise))
    assert gaussian_epsilon(1 / mu, 1e-5) == pytest.approx(3.0, abs=1e-3)
    assert sum(count for _, _, count in made.charged_runs()) == 4


def test_a_budget_below_one_epoch_is_refused():
    with pytest.raises(PrivacyRefusal, match="not one epoch fits"):
        plan(epsilon=0.5, epochs=3)


def test_balls_in_bins_are_planned_by_rdp_alone():
    made = plan(BallsInBins(expected_batch_size=150), accountant=Rdp(), epochs=4)
    assert (made.steps_per_epoch, made.sample_rate, made.expected_batch_size) == (5, 0.2, 160.0)
    assert made.epsilon < plan(accountant=Rdp(), epochs=4).epsilon
    with pytest.raises(PrivacyRefusal):
        plan(BallsInBins(expected_batch_size=150), accountant=Pld(), epochs=4)
    with pytest.raises(PrivacyRefusal):
        plan(BallsInBins(expected_batch_size=150), accountant=Zcdp(), epochs=4)


@pytest.mark.parametrize(
    "sampler",
    [Shuffle(expected_batch_size=7), BallsInBins(expected_batch_size=7)],
    ids=lambda s: s.kind,
)
def test_the_loader_hands_out_each_batch_of_an_epoch_once(sampler):
    made = plan(sampler, accountant=Rdp(), records=50, epochs=3)
    loader = PrivateLoader(range(50), sampler=sampler)
    loader.arm(made, stream=secret_stream("sampler"), ranks=Ranks())
    epochs = []
    for start in range(0, made.steps, made.steps_per_epoch):
        drawn = [loader.draw(start + place + 1) for place in range(made.steps_per_epoch)]
        assert sorted(numpy.concatenate(drawn)) == list(range(50))
        epochs.append([batch.tolist() for batch in drawn])
    assert epochs[0] != epochs[1] != epochs[2]
    with pytest.raises(KeyError):
        loader.draw(1), loader.draw(2), loader.draw(2)


def rows(path):
    return [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]


def test_a_run_charges_each_epoch_on_its_first_step(run):
    done = run(*SHUFFLE)
    assert done.exit_code == 0, done.output
    assert [row["count"] for row in done.rows] == [1, 0, 0, 0, 0, 0] * 4
    assert [row["step"] for row in done.rows] == list(range(1, 25))
    assert (done.summary["steps"], done.summary["charged"]) == (24, 4)
    assert done.summary["epsilon"] == pytest.approx(
        gaussian_epsilon(4 / math.sqrt(4), 1e-5), rel=1e-6
    )
    assert all(
        row["event"] == {"type": "GaussianDpEvent", "noise_multiplier": 4.0} for row in done.rows
    )
    found = verify_ledger(done.path)
    assert found.intact, found.faults
    assert found.charged == 4


@pytest.fixture
def stopped(run, monkeypatch):
    """Stop a shuffled run by a real signal after its ninth step: in the middle of its second epoch."""
    step = RunRecord.step

    def then_signal(record, **facts):
        step(record, **facts)
        if record.ledger.step == 9:
            os.kill(os.getpid(), signal.SIGINT)

    def go(*changes):
        with monkeypatch.context() as patch:
            patch.setattr(RunRecord, "step", then_signal)
            done = run(*SHUFFLE, *changes)
        assert done.exit_code == 130, done.output
        return done

    return go


def test_a_resumed_run_starts_and_pays_a_new_epoch(stopped):
    done = stopped()
    assert CliRunner().invoke(app, ["resume", str(done.path)]).exit_code == 0
    assert [row["step"] for row in done.rows] == [*range(1, 10), *range(13, 25)]
    assert [row["count"] for row in done.rows] == [1, 0, 0, 0, 0, 0, 1, 0, 0] + [
        1,
        0,
        0,
        0,
        0,
        0,
    ] * 2
    assert (done.summary["steps"], done.summary["charged"], done.summary["status"]) == (
        21,
        4,
        "completed",
    )
    epsilons = [row["epsilon"] for row in done.rows]
    assert epsilons == sorted(epsilons)
    assert verify_ledger(done.path).intact


def test_a_run_that_was_stopped_in_its_last_epoch_has_only_its_end_left(stopped):
    done = stopped("train={epochs: 2}")
    result = CliRunner().invoke(app, ["resume", str(done.path)])
    assert result.exit_code == 0, result.output
    assert [row["step"] for row in done.rows] == list(range(1, 10))
    assert (done.summary["steps"], done.summary["charged"], done.summary["status"]) == (
        9,
        2,
        "completed",
    )


def test_a_torn_row_is_charged_as_the_beginning_of_an_epoch_which_is_then_used(stopped):
    """A row that a crash cut off may have begun an epoch in a run that was resumed before; nothing of it was released."""
    done = stopped()
    with (done.path / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"row":10,"step":')
    result = CliRunner().invoke(app, ["resume", str(done.path)])
    assert result.exit_code == 0, result.output
    assert [row["step"] for row in done.rows] == [*range(1, 10), *range(13, 25)]
    assert [row["count"] for row in done.rows] == [1, 0, 0, 0, 0, 0, 1, 0, 0] + [
        1,
        0,
        0,
        0,
        0,
        0,
    ] * 2
    assert (done.summary["steps"], done.summary["charged"]) == (20, 4)
    assert verify_ledger(done.path).intact


def test_a_torn_row_of_the_last_epoch_costs_no_further_epoch(stopped):
    done = stopped("train={epochs: 2}")
    with (done.path / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"row":10,"step":')
    result = CliRunner().invoke(app, ["resume", str(done.path)])
    assert result.exit_code == 0, result.output
    assert [row["count"] for row in done.rows] == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert done.summary["charged"] == 2


def test_balls_in_bins_run_to_their_end(run):
    done = run(
        "sampler={kind: balls_in_bins, expected_batch_size: 150}",
        "noise.noise_multiplier=auto",
        "train={epochs: 3}",
    )
    assert done.exit_code == 0, done.output
    assert done.summary["charged"] == 3
    assert done.rows[0]["event"]["type"] == "BallsInBinsDpEvent"
    assert verify_ledger(done.path).intact


@pytest.mark.parametrize("torn", [b"", b'{"row":'], ids=["whole", "torn"])
@pytest.mark.parametrize("charged", [1, 3, 4, 5])
@pytest.mark.parametrize(
    "sampler", [Poisson(sample_rate=0.25), Shuffle(expected_batch_size=250)], ids=lambda s: s.kind
)
def test_every_process_of_a_resumed_run_goes_on_after_the_same_step(
    tmp_path, sampler, charged, torn
):
    budget = Budget(epsilon=100.0, delta=1e-5)
    parts = PrivateParts(sampler, Flat(), Constant(noise_multiplier=4.0), Gdp(), budget)
    if not sampler.epochwise:
        parts = replace(parts, accountant=Rdp())
    made = plan_privacy(parts, name="t", records=1000, steps=20)
    write_run(tmp_path / "run", parts, made, charged=charged)
    run = RunDirectory(tmp_path / "run")
    run.summary.unlink()
    with run.ledger.open("ab") as ledger:
        ledger.write(torn)
    engine = Engine(nn.Linear(2, 1), lambda model, batch: model(batch[0])[:, 0], Flat())
    steps = []
    for ranks in two_ranks():
        record = Follower(made)
        if ranks.first:
            record = RunRecord.reopen(run, plan=made, parts=parts, restored={}, data=None)
        gate, upcoming = open_gate(
            parts, budget, made, record, ranks=ranks, seed=None, restored={}, resume=run
        )
        make_private_step(parts, made, engine, gate, upcoming, restored={})
        steps.append(upcoming.next().facts["step"])
    assert steps[0] == steps[1] == made.start_after(charged) + (2 if torn else 1)
