"""Verification of runs of every kind: the rows cost what the plan states and is printed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from written_runs import write_run

from dppipe.cli.app import app
from dppipe.clipping.base import Clipper
from dppipe.clipping.flat import Flat
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.noise.constant import Constant
from dppipe.noise.linear import Linear
from dppipe.optim import schedules
from dppipe.planning.earlier.runs import ChargedEvent, Earlier, EarlierRun
from dppipe.planning.parts import PrivateParts
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.planning.release_plan import LearnerParts, plan_releases
from dppipe.planning.stated import DEFAULT_FACTS
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.charges import Charge
from dppipe.privacy.events.mechanisms import exponential, gaussian, laplace
from dppipe.privacy.events.plain import event_to_data
from dppipe.privacy.printing import shown
from dppipe.privacy.release import PublicFacts, Release
from dppipe.runs.directory import RunDirectory
from dppipe.runs.ledger import Ledger
from dppipe.runs.record import RunRecord
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import BallsInBins, Poisson, Shuffle
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import built_in_kinds, load_built_in

STEPS, DELTA = 10, 1e-5
OPTIONS: dict[str, dict[str, Any]] = {
    "jl": {"delta": DELTA / 2, "projections": 400},
    "grouped": {"max_grad_norms": {"*": 1.0}},
}
POISSON = Poisson(sample_rate=0.1)
PLAIN = PrivateParts(
    POISSON,
    Flat(),
    Constant(noise_multiplier=1.0),
    Rdp(),
    Budget(epsilon=1e6, delta=DELTA),
)
GROWING = schedules.Linear(end=2.0)
STATISTICS = PrivateScaling(noise_multiplier=1.0)


def clipper(kind: str) -> Clipper:
    made = load_built_in(FAMILIES["clipping"], kind).model_validate(OPTIONS.get(kind, {}))
    assert isinstance(made, Clipper)
    return made


def earlier(parts: PrivateParts, *, records: Any, failure: float = 0.0) -> Earlier:
    """Return a run before with twice the steps and half the noise."""
    event = parts.event(0.5, rate=0.1)
    run = EarlierRun(
        run="a",
        run_dir="runs/a",
        ledger_head="00",
        relation="zero_out",
        unit="example",
        failure_delta=failure,
        events=(ChargedEvent(event=event_to_data(event), count=2 * STEPS),),
    )
    return Earlier(records=records, runs=(run,))


FORMS = {
    "statistics": replace(PLAIN, preludes=(STATISTICS,)),
    "growing batches": replace(PLAIN, sampler=Poisson(sample_rate=0.1, batch_schedule=GROWING)),
    "falling noise": replace(PLAIN, noise=Linear(noise_multiplier=1.0)),
    "shuffle": replace(PLAIN, sampler=Shuffle(expected_batch_size=300)),
    "balls in bins": replace(PLAIN, sampler=BallsInBins(expected_batch_size=300)),
    "same records": replace(PLAIN, earlier=earlier(PLAIN, records="same")),
    "disjoint records": replace(PLAIN, earlier=earlier(PLAIN, records="disjoint")),
    "failures before": replace(PLAIN, earlier=earlier(PLAIN, records="same", failure=4e-6)),
    "all failures": replace(
        PLAIN,
        clipping=clipper("jl"),
        preludes=(STATISTICS,),
        earlier=earlier(PLAIN, records="same", failure=4e-6),
    ),
}
KINDS = built_in_kinds(FAMILIES["clipping"])
FORMS |= {kind: replace(PLAIN, clipping=clipper(kind)) for kind in KINDS}


def written(folder: Path, form: str, *, charged: int = STEPS) -> StepPlan:
    plan = plan_privacy(FORMS[form], name="t", records=1000, steps=STEPS)
    write_run(folder, FORMS[form], plan, charged=charged)
    return plan


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_run_costs_what_its_plan_states(tmp_path: Path, form: str) -> None:
    plan = written(tmp_path / "run", form)
    found = verify_ledger(tmp_path / "run")
    assert found.faults == ()
    assert found.certified
    assert found.epsilon == pytest.approx(plan.epsilon, rel=1e-9)
    assert found.claimed == plan.epsilon
    assert (found.delta, found.odometer) == (DELTA, plan.odometer_claim(STEPS))


@pytest.mark.parametrize("form", FORMS)
def test_every_line_is_printed_with_these_numbers(tmp_path: Path, form: str) -> None:
    plan = written(tmp_path / "run", form)
    done = CliRunner().invoke(app, ["ledger", "verify", str(tmp_path / "run")])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].startswith(f"epsilon {shown(plan.epsilon or 0)} at delta 1e-05 by rdp: ")
    assert lines[1] == f"the last row states epsilon {shown(plan.epsilon or 0)}"
    assert lines[-1] == "the ledger is whole"
    assert ("whose weights it started from" in lines[0]) == (FORMS[form].earlier is not None)
    data = json.loads(
        CliRunner().invoke(app, ["ledger", "verify", str(tmp_path / "run"), "--json"]).output,
    )
    assert data["epsilon"] == pytest.approx(plan.epsilon, rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_claims_less_than_it_cost_is_found(tmp_path: Path, form: str) -> None:
    plan = plan_privacy(FORMS[form], name="t", records=1000, steps=STEPS)
    points = [point.model_copy(update={"epsilon": 0.99 * point.epsilon}) for point in plan.curve]
    low = plan.model_copy(update={"curve": tuple(points)})
    write_run(tmp_path / "run", FORMS[form], low, charged=STEPS)
    found = verify_ledger(tmp_path / "run")
    assert "as the rows cost" in found.faults[-1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("delta", [DELTA, 1e-3, 0.5])
def test_at_every_delta_what_is_set_aside_is_taken_off(
    tmp_path: Path,
    form: str,
    delta: float,
) -> None:
    parts = FORMS[form]
    plan = written(tmp_path / "run", form)
    aside = plan.failure_delta
    events = parts.committed(plan)
    if parts.earlier is not None:
        aside += parts.earlier.failure_delta
        events = [*parts.earlier.steps(), *events]
    cost = Rdp().compose(events, relation="zero_out").epsilon(delta - aside)
    if form == "disjoint records":
        cost = Rdp().compose(parts.earlier.steps(), relation="zero_out").epsilon(delta)
    assert verify_ledger(tmp_path / "run", delta=delta).epsilon == pytest.approx(cost, rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("charged", [1, 6])
@pytest.mark.parametrize("start", ['"version":2,"step":', '"step":'], ids=["2", "1"])
def test_a_torn_row_of_either_version_counts_for_at_least_the_step_that_it_began(
    tmp_path: Path, form: str, charged: int, start: str
) -> None:
    plan = written(tmp_path / "run", form, charged=charged)
    ledger = tmp_path / "run" / "ledger.jsonl"
    with ledger.open("ab") as file:
        row = len(ledger.read_text().splitlines()) + 1
        file.write(f'{{"row":{row},{start}'.encode())
    found = verify_ledger(tmp_path / "run")
    assert found.torn
    assert found.epsilon is not None
    assert found.epsilon >= plan.epsilon_after(charged + 1) * (1 - 1e-9)


@pytest.mark.parametrize("form", ["statistics", "falling noise", "shuffle", "balls in bins"])
@pytest.mark.parametrize("charged", [1, 3, 4, 6])
def test_a_run_that_ends_with_a_torn_row_states_one_more_charge_as_spent(
    tmp_path: Path, form: str, charged: int
) -> None:
    plan = written(tmp_path / "run", form, charged=charged)
    run = RunDirectory(tmp_path / "run")
    rows = len(run.ledger.read_text().splitlines())
    with run.ledger.open("ab") as file:
        file.write(f'{{"row":{rows + 1},"version":2,'.encode())
    ledger = Ledger.open(run.ledger, plan=plan.to_json())
    RunRecord(run, plan=plan, ledger=ledger).finish({}, stopped="failed", steps=0)
    summary = json.loads(run.summary.read_text())
    paid = sum(plan.charges(step) for step in range(1, charged + 1)) + 1
    first = min(plan.steps, (paid - 1) * plan.steps_per_charge + 1)
    assert summary["epsilon_spent"] == plan.epsilon_after(first) > plan.epsilon_after(charged)
    assert summary["charged"] == paid + len(plan.releases) == verify_ledger(run.path).charged


class Several:
    """A learner of releases that differ in kind, cost and count."""

    scale = 3.0

    def releases(self, facts: PublicFacts, *, scale: float) -> list[Release]:
        return [
            Release(what="mean", event=gaussian(scale)),
            Release(what="votes", event=laplace(scale), count=3),
            Release(what="choice", event=exponential(0.3)),
            Release(what="counts", event=gaussian(scale / 2), count=2),
        ]


@pytest.mark.parametrize("whole", range(4))
def test_a_torn_row_of_a_learner_counts_for_the_release_that_it_began(
    tmp_path: Path, whole: int
) -> None:
    parts = LearnerParts(Several(), Rdp(), Budget(epsilon=1e6, delta=DELTA), "example")
    facts = PublicFacts(
        records=1000,
        unit="example",
        relation="zero_out",
        input_shape=(2,),
        outputs=1,
        task="binary",
    )
    plan = plan_releases(parts, facts, name="t", learner="several", **DEFAULT_FACTS)
    run = RunDirectory(tmp_path)
    run.plan.write_bytes(plan.to_json())
    with Ledger.create(run.ledger, plan=plan.to_json()) as ledger:
        for number, release in enumerate(plan.releases[:whole], start=1):
            ledger.charge(
                Charge(
                    what=release.what,
                    event=release.dp_event,
                    relation="zero_out",
                    unit="example",
                    count=release.count,
                    epsilon=plan.epsilon_after(number),
                    facts=release.facts,
                )
            )
    with run.ledger.open("ab") as file:
        file.write(f'{{"row":{whole + 1},"version":2,"what":"'.encode())
    found = verify_ledger(tmp_path)
    assert (found.torn, found.rows, len(found.faults)) == (True, whole, 1)
    assert found.epsilon == pytest.approx(plan.epsilon_after(whole + 1), rel=1e-9)
