"""Advice to a run that doesn't fit: its epsilon is granted, and a larger one isn't."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from dppipe.budgets.advice import affordable_epsilon
from dppipe.budgets.binding import bind_run
from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.clipping.flat import Flat
from dppipe.errors import BudgetExhausted
from dppipe.noise.constant import Constant
from dppipe.noise.linear import Linear
from dppipe.planning.earlier.runs import ChargedEvent, Earlier, EarlierRun
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.replanning import replanned
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.plain import event_to_data
from dppipe.runs.ledger import Ledger
from dppipe.sampling.full_batch import FullBatch
from dppipe.sampling.poisson import Poisson

AUTO = PrivateParts(
    sampler=Poisson(sample_rate=0.02),
    clipping=Flat(),
    noise=Constant(noise_multiplier="auto"),
    accountant=Rdp(),
    budget=Budget(epsilon=5.0, delta=1e-6),
)
GIVEN = replace(AUTO, noise=Constant(noise_multiplier=2.0))
RUNS: dict[str, tuple[PrivateParts, int | None, dict[str, Any]]] = {
    "noise that follows from epsilon": (AUTO, 60, {"order": 8.0}),
    "pld": (replace(AUTO, accountant=Pld()), 8, {"order": 8.0}),
    "noise that moves": (replace(AUTO, noise=Linear(noise_multiplier="auto", end=0.5)), 40, {}),
    "given noise and steps": (GIVEN, 9000, {"order": 8.0}),
    "until the budget is spent": (GIVEN, None, {"order": 8.0}),
    "zcdp": (replace(AUTO, sampler=FullBatch()), 5, {"filter": "zcdp"}),
    "basic": (AUTO, 60, {"filter": "basic"}),
    "advanced": (AUTO, 60, {"filter": "advanced"}),
}


def plan_of(parts: PrivateParts, steps: int | None, *, epsilon: float | None = None) -> StepPlan:
    """Plan a run anew, as `dppipe run` does."""
    if epsilon is not None and parts.budget is not None:
        parts = replace(parts, budget=parts.budget.model_copy(update={"epsilon": epsilon}))
    return plan_privacy(parts, name="test", records=1000, steps=steps)


def bind(store: Store, path: Path, plan: StepPlan, parts: PrivateParts) -> None:
    """Reserve for a run as training does."""
    path.mkdir()
    (path / "plan.json").write_bytes(plan.to_json())
    Ledger.create(path / "ledger.jsonl", plan=plan.to_json()).close()
    bind_run(store, "clinic", run_dir=path, plan=plan, parts=parts)


@pytest.mark.parametrize("kind", RUNS)
def test_the_advised_epsilon_is_granted_and_the_next_larger_is_not(
    kind: str, tmp_path: Path
) -> None:
    parts, steps, terms = RUNS[kind]
    store = Store(tmp_path / "budgets.db")
    store.create(Scope.make("clinic", **{"epsilon": 3.0, "delta": 1e-5} | terms))
    bind(store, tmp_path / "earlier", plan_of(parts, steps, epsilon=0.4), parts)
    with pytest.raises(BudgetExhausted) as caught:
        bind(store, tmp_path / "large", plan_of(parts, steps), parts)
    told = re.search(
        r"Or set budget\.epsilon: ([\d.e-]+), with which it fits\.$", str(caught.value)
    )
    assert told, str(caught.value)
    advised = float(told[1])
    digit = 10.0 ** -(len(f"{advised:.3e}".split("e")[0]) - 2) * 10.0 ** int(f"{advised:e}"[-3:])
    with pytest.raises(BudgetExhausted):
        bind(store, tmp_path / "larger", plan_of(parts, steps, epsilon=advised + digit), parts)
    bind(store, tmp_path / "advised", plan_of(parts, steps, epsilon=advised), parts)


def test_a_full_scope_has_no_epsilon_to_advise(tmp_path: Path) -> None:
    store = Store(tmp_path / "budgets.db")
    store.create(Scope.make("clinic", epsilon=1.0, delta=1e-5, filter="basic"))
    bind(store, tmp_path / "all", plan_of(AUTO, 60, epsilon=1.0), AUTO)
    with pytest.raises(BudgetExhausted) as caught:
        bind(store, tmp_path / "more", plan_of(AUTO, 60, epsilon=0.5), AUTO)
    assert "Or set" not in str(caught.value)


@pytest.mark.parametrize("kind", RUNS)
def test_a_plan_is_made_again_as_planning_the_spec_anew_would(kind: str) -> None:
    parts, steps, _ = RUNS[kind]
    again = replanned(plan_of(parts, steps), parts, epsilon=0.7)
    assert again == plan_of(parts, steps, epsilon=0.7)


def test_a_plan_is_made_again_with_the_runs_that_its_weights_come_from() -> None:
    event = PoissonSampledDpEvent(0.02, GaussianDpEvent(2.0))
    charged = (ChargedEvent(event=event_to_data(event), count=100),)
    facts = {"run": "a", "run_dir": "runs/a", "ledger_head": "00"}
    before = EarlierRun(**facts, relation="zero_out", unit="example", events=charged)
    parts = replace(AUTO, earlier=Earlier(records="same", runs=(before,)))
    again = replanned(plan_of(parts, 60), AUTO, epsilon=2.5)
    assert again == plan_of(parts, 60, epsilon=2.5)


def test_a_schedule_that_the_budget_has_cut_short_is_not_planned_again() -> None:
    """Its plan no longer says how many steps the noise was to move over."""
    parts = replace(AUTO, noise=Linear(noise_multiplier=1.0, end=0.5))
    cut = plan_of(parts, 900)
    assert cut.ends_at == "budget"
    assert replanned(cut, parts, epsilon=1.0) is None


def test_no_epsilon_is_advised_where_none_can_be_tried(tmp_path: Path) -> None:
    parts = replace(AUTO, noise=Linear(noise_multiplier=1.0, end=0.5))
    store = Store(tmp_path / "budgets.db")
    store.create(Scope.make("clinic", epsilon=1.0, delta=1e-5))
    assert affordable_epsilon(store.status("clinic"), plan_of(parts, 900), parts) is None
