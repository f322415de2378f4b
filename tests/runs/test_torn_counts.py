"""A torn row counts for as many charges as the release that it began: wherever it is counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from private_steps import release_charge

from dppipe.budgets.binding import bind_run
from dppipe.budgets.reconcile import reconcile
from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.clipping.flat import Flat
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.noise.constant import Constant
from dppipe.planning.parts import PrivateParts
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.planning.release_plan import LearnerParts, plan_releases
from dppipe.planning.stated import DEFAULT_FACTS
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.mechanisms import gaussian, laplace
from dppipe.privacy.release import PublicFacts, Release
from dppipe.runs.directory import RunDirectory
from dppipe.runs.ledger import Ledger
from dppipe.runs.record import RunRecord
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import Poisson

BUDGET = Budget(epsilon=1e6, delta=1e-5)


class Several:
    """A learner of releases that differ in cost and count."""

    scale = 3.0

    def releases(self, facts: PublicFacts, *, scale: float) -> list[Release]:
        return [
            Release(what="votes", event=laplace(scale), count=3),
            Release(what="mean", event=gaussian(scale)),
            Release(what="counts", event=gaussian(scale / 2), count=5),
        ]


LEARNER = LearnerParts(Several(), Rdp(), BUDGET, "example")
STATED = PublicFacts(
    records=1000, unit="example", relation="zero_out", input_shape=(2,), outputs=1, task="binary"
)
STEPS = PrivateParts(
    Poisson(sample_rate=0.1),
    Flat(),
    Constant(noise_multiplier=8.0),
    Rdp(),
    BUDGET,
    preludes=(PrivateScaling(noise_multiplier=9.0), PrivateScaling(noise_multiplier=0.5)),
)
PLANS: dict[str, tuple[PrivateParts | LearnerParts, Plan]] = {
    "releases": (
        LEARNER,
        plan_releases(LEARNER, STATED, name="t", learner="several", **DEFAULT_FACTS),
    ),
    "releases before steps": (STEPS, plan_privacy(STEPS, name="t", records=1000, steps=10)),
}
CASES = [(kind, whole) for kind, (_, plan) in PLANS.items() for whole in range(len(plan.releases))]


def torn_run(path: Path, plan: Plan, *, whole: int) -> RunDirectory:
    """Write so many whole rows, and the start of the next."""
    run = RunDirectory(path)
    with Ledger.open(run.ledger, plan=plan.to_json()) as ledger:
        for release in plan.releases[:whole]:
            ledger.charge(release_charge(release.release(), plan))
    with run.ledger.open("ab") as file:
        file.write(f'{{"row":{whole + 1},"version":2,"what":"'.encode())
    return run


@pytest.mark.parametrize(("kind", "whole"), CASES)
def test_a_torn_row_counts_alike_in_verification_summary_and_shared_budget(
    tmp_path: Path, kind: str, whole: int
) -> None:
    parts, plan = PLANS[kind]
    path = tmp_path / "run"
    path.mkdir()
    (path / "plan.json").write_bytes(plan.to_json())
    Ledger.create(path / "ledger.jsonl", plan=plan.to_json()).close()
    store = Store(tmp_path / "budgets.db")
    store.create(Scope.make("ward", epsilon=1e6, delta=1e-4, filter="basic"))
    scoped = replace(parts, budget=Budget(epsilon=1e6, delta=1e-5, scope="ward"))
    bind_run(store, "ward", run_dir=path, plan=plan, parts=scoped)
    run = torn_run(path, plan, whole=whole)
    counted = sum(release.count for release in plan.releases[: whole + 1])

    found = verify_ledger(path)
    assert found.charged == counted
    begun = [(release.dp_event, release.count) for release in plan.releases[: whole + 1]]
    least = Rdp().compose(begun, relation="zero_out").epsilon(1e-5)
    assert found.epsilon is not None
    assert found.epsilon >= least * (1 - 1e-9)

    ledger = Ledger.open(run.ledger, plan=plan.to_json())
    RunRecord(run, plan=plan, ledger=ledger).finish({}, stopped="failed", steps=0)
    assert json.loads(run.summary.read_text())["charged"] == counted
    assert verify_ledger(path).charged == counted

    assert [one.outcome for one in reconcile(store, "ward")] == ["settled"]
    (entry,) = store.status("ward").runs
    assert sum(count for _, count in store.run_steps(entry.run_id)) == counted
    bind_run(store, "ward", run_dir=path, plan=plan, parts=scoped)  # its own ledger, as settled
