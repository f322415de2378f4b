"""Each field of a run's files that carries privacy is looked at: changed, it is a fault.

The fields are those that the files have, so that a new one is tested too. Rows are written again with
a chain of hashes of their own: what notices a change is the comparison with the plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from private_steps import release_charge
from written_runs import charges

from dppipe.clipping.flat import Flat
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.errors import DppipeError
from dppipe.noise.constant import Constant
from dppipe.planning.parts import PrivateParts
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.planning.release_plan import LearnerParts, plan_releases
from dppipe.planning.stated import DEFAULT_FACTS
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.mechanisms import exponential, gaussian, laplace
from dppipe.privacy.ledger_rows import digest
from dppipe.privacy.release import PublicFacts, Release
from dppipe.runs.directory import RunDirectory
from dppipe.runs.ledger import Charge, Ledger
from dppipe.runs.outcome import Stop
from dppipe.runs.record import RunRecord
from dppipe.runs.verification.covered import open_covered
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import BallsInBins, FullBatch, Poisson, Shuffle, TruncatedPoisson, User

STEPS = 4
BUDGET = Budget(epsilon=1e6, delta=1e-5)
POISSON = PrivateParts(
    Poisson(sample_rate=0.1), Flat(), Constant(noise_multiplier=2.0), Rdp(), BUDGET
)
PARTS = {
    "poisson": POISSON,
    "statistics": replace(POISSON, preludes=(PrivateScaling(noise_multiplier=9.0),)),
    "users": replace(POISSON, sampler=User(sample_rate=0.1)),
    "shuffle": replace(POISSON, sampler=Shuffle(expected_batch_size=500)),
    "bins": replace(POISSON, sampler=BallsInBins(expected_batch_size=500)),
    "full batch": replace(POISSON, sampler=FullBatch()),
    "truncated": replace(
        POISSON, sampler=TruncatedPoisson(expected_batch_size=50), accountant=Pld()
    ),
    "laplace": replace(
        POISSON, noise=Constant(noise_multiplier=2.0, mechanism="laplace"), accountant=Pld()
    ),
}
FREE = {"max_grad_norm", "hash", "prev", "torn"}
"""What no claim depends on: noise is scaled to whatever the bound is, and hashes are computed."""


class Several:
    """A learner of releases that differ in kind and count."""

    scale = 3.0

    def releases(self, facts: PublicFacts, *, scale: float) -> list[Release]:
        return [
            Release(what="votes", event=laplace(scale), count=3, facts={"voters": 5}),
            Release(what="mean", event=gaussian(scale)),
            Release(what="choice", event=exponential(0.3), facts={"scores": "losses"}),
        ]


LEARNER = LearnerParts(Several(), Rdp(), BUDGET, "example")
STATED = PublicFacts(
    records=1000, unit="example", relation="zero_out", input_shape=(2,), outputs=1, task="binary"
)


def rows_of(kind: str) -> tuple[Plan, list[Charge]]:
    """Return a plan and all rows of a run of it."""
    if kind in PARTS:
        planned = plan_privacy(PARTS[kind], name="t", records=1000, steps=STEPS)
        return planned, charges(PARTS[kind], planned, charged=STEPS)
    plan = plan_releases(LEARNER, STATED, name="t", learner="several", **DEFAULT_FACTS)
    rows = []
    for number, release in enumerate(plan.releases, start=1):
        charge = release_charge(release.release(), plan)
        rows.append(replace(charge, epsilon=plan.epsilon_after(number)))
    return plan, rows


def finished(path: Path, kind: str, *, stopped: Stop | None = None) -> RunDirectory:
    """Write a run that has ended."""
    plan, rows = rows_of(kind)
    run = RunDirectory(path)
    run.last_checkpoint.parent.mkdir(parents=True)
    run.plan.write_bytes(plan.to_json())
    ledger = Ledger.create(run.ledger, plan=plan.to_json())
    for charge in rows:
        ledger.charge(charge)
    RunRecord(run, plan=plan, ledger=ledger).finish({}, stopped=stopped, steps=0)
    return run


def changes(value: Any) -> Iterator[Any]:
    """Yield other values like this one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield max(0, value - 1)
    elif isinstance(value, float):
        yield value * 2
        yield value / 2
    elif isinstance(value, str):
        yield value + "s"


def fields(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the place of each number and text in plain data, with other values for it."""
    for name, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list):
            yield from fields(value, (*path, name))
        else:
            for other in changes(value):
                if other != value:
                    yield (*path, name), other


def put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for name in path[:-1]:
        data = data[name]
    data[path[-1]] = value


def rewrite(run: RunDirectory, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Write changed rows with a chain of their own, and a summary that counts them."""
    rows = [json.loads(line) for line in run.ledger.read_text().splitlines()]
    change(rows)
    head = digest(run.plan.read_bytes())
    lines = []
    for row in rows:
        row["prev"] = head
        body = json.dumps({k: v for k, v in row.items() if k != "hash"}, separators=(",", ":"))
        line = f'{body[:-1]},"hash":"{digest(body.encode())}"}}'
        lines.append(line + "\n")
        head = digest(line.encode())
    run.ledger.write_text("".join(lines))
    summary = json.loads(run.summary.read_text())
    counted = sum(row["count"] for row in rows)
    run.summary.write_text(json.dumps(summary | {"ledger_head": head, "charged": counted}))


def is_noticed(run: RunDirectory) -> bool:
    try:
        return not verify_ledger(run.path).intact
    except DppipeError:
        return True


@pytest.mark.parametrize("kind", [*PARTS, "releases"])
def test_each_field_of_a_row_is_compared_with_the_plan(tmp_path: Path, kind: str) -> None:
    run = finished(tmp_path / "run", kind)
    assert verify_ledger(run.path).faults == ()
    before = run.ledger.read_bytes()
    summary = run.summary.read_bytes()
    rows = [json.loads(line) for line in before.splitlines()]
    looked_at = set()
    missed = []
    for number in {0, len(rows) - 1}:
        for path, other in fields(rows[number]):
            above = path == ("epsilon",) and other > rows[number]["epsilon"]
            if path[0] in FREE or above:
                continue  # a claim may be more than was spent
            looked_at.add(path[0])
            rewrite(run, lambda rows, at=number, path=path, other=other: put(rows[at], path, other))
            if not is_noticed(run):
                missed.append((number + 1, path, other))
            run.ledger.write_bytes(before)
            run.summary.write_bytes(summary)
    assert missed == []
    assert {"row", "version", "event", "relation", "unit", "count", "epsilon"} <= looked_at


CLAIMS = {"charged", "epsilon", "epsilon_spent", "delta", "relation", "unit", "accountant"}
CLAIMS |= {"certified", "ledger_head"}
OTHER = {"run_dir", "status", "stopped_early", "steps", "metrics", "validations", "validates"}
OTHER |= {"physical_batch_size", "independence", "seconds", "begun", "ended", "starts", "versions"}
OTHER |= {"scope", "validation_records"}


@pytest.mark.parametrize("kind", ["poisson", "shuffle", "releases"])
@pytest.mark.parametrize("stopped", [None, "early", "interrupted", "failed"])
def test_each_claim_of_a_summary_is_compared(
    tmp_path: Path, kind: str, stopped: Stop | None
) -> None:
    run = finished(tmp_path / "run", kind, stopped=stopped)
    assert verify_ledger(run.path).faults == ()
    summary = json.loads(run.summary.read_text())
    assert set(summary) == CLAIMS | OTHER  # a new field is one or the other
    assert summary["certified"] == (stopped != "failed")
    missed = []
    for (name, *_), other in fields({name: summary[name] for name in CLAIMS}):
        less = name == "certified" and other is False
        more = name == "epsilon_spent" and other > summary[name]
        if less or more:
            continue  # who claims less certainty, or more spending, hides nothing
        run.summary.write_text(json.dumps(summary | {name: other}))
        if not is_noticed(run):
            missed.append((name, other))
    assert missed == []


def test_each_field_of_a_plan_is_held_by_the_ledger(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "poisson")
    plan = json.loads(run.plan.read_text())
    before = run.plan.read_bytes()
    places = list(fields(plan))
    assert {path[0] for path, _ in places} >= {"steps", "epsilon", "delta", "noise", "relation"}
    for path, other in places:
        changed = json.loads(before)
        put(changed, path, other)
        run.plan.write_text(json.dumps(changed, indent=2) + "\n")
        assert is_noticed(run), path


@pytest.mark.parametrize("wrong", ["a", "b", "c"])
def test_each_covered_run_is_verified(tmp_path: Path, wrong: str) -> None:
    run = finished(tmp_path / "run", "releases")
    paid = json.loads(run.ledger.read_text().splitlines()[0])["hash"]
    plan, rows = rows_of("releases")
    for name in ("a", "b", "c"):
        by = "0" * 64 if name == wrong else paid
        with open_covered(run.path, name, plan) as ledger:
            ledger.charge(replace(rows[0], count=0, covered_by=by))
    (fault,) = verify_ledger(run.path).faults
    assert f"covered/{wrong}/ledger.jsonl:1: covered_by" in fault
