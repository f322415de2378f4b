"""Noise that follows released values: every step is asked of a filter, and the run stays within its budget."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from private_steps import altered, two_ranks
from typer.testing import CliRunner

import dppipe
from dppipe import Budget, NoiseSchedule
from dppipe.cli.app import app
from dppipe.clipping import Flat
from dppipe.engine import Engine
from dppipe.lightning.fit import make_private_step, open_gate
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants import Rdp
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.directory import RunDirectory
from dppipe.runs.follower import Follower
from dppipe.runs.ledger import Ledger
from dppipe.runs.record import RunRecord
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import Poisson

ROOT = Path(dppipe.__file__).parents[1]
RHO = 0.108246
"""What zCDP of (2, 1e-5) comes to, rounded up."""
FALLING = "noise={kind: budget_aware, noise_multiplier: 40.0, patience: 1, decay: 0.9}"
ZCDP = [
    "sampler=full_batch",
    "accountant=zcdp",
    "budget={epsilon: 2.0, delta: 1e-5}",
    "train.steps=4000",
    FALLING,
]
RDP = [
    "accountant=rdp",
    "budget={epsilon: 3.0, delta: 1e-5}",
    "train.steps=4000",
    FALLING.replace("40.0", "2.0"),
]
BROKEN = """
from typing import ClassVar
from dppipe import NoiseSchedule

class Broken(NoiseSchedule, kind="broken"):
    \"\"\"Gives no number at its fourth step.\"\"\"
    adaptive: ClassVar[bool] = True

    def multiplier(self, progress):
        return 1.0

    def next_multiplier(self, history):
        return 1.0 if len(history) < 3 else {value}
"""


@pytest.fixture(autouse=True)
def plugins_are_found(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_the_zcdp_filter_ends_the_run_before_the_budget_is_exceeded(run):
    done = run(*ZCDP)
    assert done.exit_code == 0, done.output
    assert done.summary["status"] == "budget_exhausted"
    assert done.summary["epsilon"] == 2.0
    multipliers = [row["noise_multiplier"] for row in done.rows]
    assert multipliers[0] == 40.0
    assert min(multipliers) < 40.0  # it did adapt
    spent = sum(0.5 / z**2 for z in multipliers)
    assert spent <= RHO < spent + 0.5 / min(multipliers) ** 2  # and not one step more
    assert CliRunner().invoke(app, ["ledger", "verify", str(done.path)]).exit_code == 0
    assert "filter admitted each step" in (done.path / "privacy.md").read_text()


def test_the_rdp_filter_takes_sampled_steps(run):
    done = run(*RDP)
    assert done.exit_code == 0, done.output
    assert done.summary["status"] == "budget_exhausted"
    assert len({row["noise_multiplier"] for row in done.rows}) > 1


def test_a_filter_asks_for_each_step_at_its_own_sample_rate(run):
    """Were it asked for the first step's, a later and costlier step would be let in, and then break off the run."""
    growing = "sampler={kind: poisson, expected_batch_size: 20, batch_schedule: {kind: linear, end: 10.0}}"
    slow = "noise={kind: budget_aware, noise_multiplier: 3.0, patience: 1000}"
    done = run(
        growing, "accountant=rdp", "budget={epsilon: 1.0, delta: 1e-5}", "train.steps=100", slow
    )
    assert done.exit_code == 0, done.output
    assert done.summary["status"] == "budget_exhausted"
    rates = [row["sample_rate"] for row in done.rows]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]


@pytest.mark.parametrize("settings", [ZCDP, RDP], ids=["zcdp", "rdp"])
def test_of_a_filtered_run_only_the_filters_budget_is_certified(run, settings):
    """Composed curves, and the best order after the fact, say less than the budget and prove nothing of adaptive steps."""
    done = run(*settings)
    budget = done.summary["epsilon"]
    own = verify_ledger(done.path)
    assert (own.epsilon, own.certified, own.faults) == (budget, True, ())
    for other in (verify_ledger(done.path, accountant="pld"), verify_ledger(done.path, delta=2e-5)):
        assert other.epsilon < budget
        assert not other.certified


@pytest.mark.parametrize("settings", [ZCDP, RDP], ids=["zcdp", "rdp"])
def test_a_step_that_the_filter_had_no_room_for_is_found(run, settings):
    done = run(*settings)
    plan = (done.path / "plan.json").read_bytes()
    rows = read_ledger(done.path / "ledger.jsonl", plan=plan)
    with Ledger.open(done.path / "ledger.jsonl", plan=plan) as ledger:
        ledger.charge(altered(rows.charges[-1], step=rows.charges[-1].step + 1))
        forged = done.summary | {"ledger_head": ledger.head, "charged": ledger.rows}
    (done.path / "summary.json").write_text(json.dumps(forged))
    found = verify_ledger(done.path)
    assert (
        f"jsonl:{rows.rows + 1}: expected a step that the {done.summary['accountant']} filter admits"
        in found.faults[-1]
    )
    assert not found.certified


@pytest.mark.parametrize("value", ["float('nan')", "0.0", "-1.0", "float('inf')", "'x'", "None"])
def test_a_schedule_that_gives_no_noise_ends_the_run_before_the_step(
    run, value, tmp_path, monkeypatch
):
    """What isn't a number never fits; the message names the schedule, not the line where it was noticed."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "broken.py").write_text(BROKEN.format(value=value))
    monkeypatch.chdir(tmp_path)
    done = run(*ZCDP[:-1], "noise={kind: broken, noise_multiplier: 40.0}")
    assert done.exit_code == 3, done.output
    assert "from the schedule 'broken', got" in done.output
    assert len(done.rows) == 3
    assert done.summary["status"] == "failed"


@pytest.mark.parametrize("accountant", ["pld", "basic"])
def test_an_accountant_without_a_filter_is_refused(run, accountant):
    done = run(f"accountant={accountant}", "train.steps=50", FALLING)
    assert done.exit_code == 3, done.output
    assert not done.path.exists()


def test_a_resumed_run_starts_from_what_the_ledger_has_charged(run, monkeypatch):
    finish = RunRecord.step

    def then_stop(record, **facts):
        finish(record, **facts)
        if record.ledger.rows == 15:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_stop)
        stopped = run(*ZCDP)
    assert stopped.exit_code == 130, stopped.output
    again = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert again.exit_code == 0, again.output
    rows = [json.loads(line) for line in (stopped.path / "ledger.jsonl").read_text().splitlines()]
    assert len(rows) > 15
    assert sum(0.5 / row["noise_multiplier"] ** 2 for row in rows) <= RHO


STEADY = [*ZCDP[:-1], "noise={kind: budget_aware, noise_multiplier: 20.0, patience: 100000}"]
"""Every step costs the same, so that the number of steps says what the filter has counted."""


@pytest.mark.parametrize("torn", [b"", b'{"row":'], ids=["whole", "torn"])
@pytest.mark.parametrize("saved", [True, False], ids=["checkpoint", "no checkpoint"])
def test_a_filter_counts_every_charge_whatever_a_crash_has_left(run, monkeypatch, saved, torn):
    finish = RunRecord.step

    def then_stop(record, **facts):
        finish(record, **facts)
        if record.ledger.rows == 15:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_stop)
        stopped = run(*STEADY)
    assert stopped.exit_code == 130, stopped.output
    (stopped.path / "summary.json").unlink()
    if not saved:
        (stopped.path / "checkpoints" / "last.ckpt").unlink()
    with (stopped.path / "ledger.jsonl").open("ab") as ledger:
        ledger.write(torn)
    again = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert again.exit_code == 0, again.output
    assert len(stopped.rows) == int(RHO / (0.5 / 20.0**2))
    assert [row["step"] for row in stopped.rows] == list(range(1, len(stopped.rows) + 1))
    assert verify_ledger(stopped.path).intact


def test_a_torn_row_is_counted_by_the_filter_of_every_process(tmp_path):
    class Steady(NoiseSchedule, kind="steady"):
        adaptive: ClassVar[bool] = True

        def multiplier(self, progress):
            return 1.0

        def next_multiplier(self, history):
            return 1.0

    noise = Steady(noise_multiplier=1.0)
    budget = Budget(epsilon=3.0, delta=1e-5)
    parts = PrivateParts(Poisson(sample_rate=0.1), Flat(), noise, Rdp(), budget)
    plan = plan_privacy(parts, name="torn", records=1000, steps=50)
    run = RunDirectory.create("torn", run_dir=tmp_path / "run")
    RunRecord.create(run, plan=plan, parts=parts, config=None, data=None).ledger.close()
    run.ledger.write_bytes(b'{"row":1,"version":2,"ste')
    engine = Engine(torch.nn.Linear(2, 1), lambda model, batch: model(batch[0])[:, 0], Flat())
    spent = []
    for ranks in two_ranks():
        record = Follower(plan)
        if ranks.first:
            record = RunRecord.reopen(run, plan=plan, parts=parts, restored={}, data=None)
        gate, upcoming = open_gate(
            parts, budget, plan, record, ranks=ranks, seed=None, restored={}, resume=run
        )
        make_private_step(parts, plan, engine, gate, upcoming, restored={})
        spent.append(upcoming.noise.filter.spent().amount)
    assert spent[0] == spent[1] > 0
