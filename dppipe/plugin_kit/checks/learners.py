"""Learners: planned from public facts alone, every release asked for, one unit within its bound."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from dppipe.errors import DppipeError
from dppipe.learners.base import Learner
from dppipe.planning.plugin_releases import check_plugin_releases
from dppipe.planning.release_plan import LearnerParts, plan_releases
from dppipe.planning.stated import DEFAULT_FACTS
from dppipe.plugin_kit.checks.learner_trials import (
    CASES,
    Fitted,
    MadeUpRecords,
    accepted_cases,
    fit_recorded,
    has_own_fit,
    untrained,
)
from dppipe.plugin_kit.checks.table import Fault, Remark, Trial, check_each, check_kind
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.release import PublicFacts
from dppipe.text_layout import shorten

SCALES = (0.5, 1.0, 2.0, 8.0)
BUILT_IN = "built in: it states bounds of its own, or its loop is a Trainer's"
ROUNDING = 1e-9
"""What float64 may add to a sum's move, as a share of the bound."""


def _raise(one: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    raise ValueError("a record that can't be read")


Change = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
CHANGES: dict[str, Change] = {
    "that can't be read": _raise,
    "of zeros": lambda one, target: (one * 0, target),
    "of 1e30": lambda one, target: (one.sign() * 1e30, target),
    "of 1e-40": lambda one, target: (one * 1e-40, target),
    "that is infinite": lambda one, target: (one.sign() * math.inf, target),
    "of NaN": lambda one, target: (one * math.nan, target),
    "turned round": lambda one, target: (-1000 * one, target),
    "of another shape": lambda one, target: (one.flatten()[:1], target),
}
"""What becomes of one unit."""


def exercise(learner: Learner) -> Any:
    """Plan and fit on made-up records; equal calls must give equal sums and weights."""
    if not has_own_fit(learner):
        return None
    found: list[Any] = []
    for facts in accepted_cases(learner)[:1]:
        found += [repr(learner.releases(facts, scale=scale)) for scale in SCALES]
        fitted = fit_recorded(learner, facts)
        found += [bounded.value for _, bounded in fitted.used]
        found += list(_state(fitted).values())
    return found


@check_each("learner")
def plans_from_facts(learner: Learner) -> Remark:
    """Its releases follow from options, facts and scale alone, without torch."""
    if not has_own_fit(learner):
        return BUILT_IN
    for facts in accepted_cases(learner):
        for scale in SCALES:
            with _without_torch():
                first = list(learner.releases(facts, scale=scale))
                again = list(learner.releases(facts, scale=scale))
            if first != again:
                raise Fault(
                    f"expected equal releases for equal facts and scale {scale:g}, got others when "
                    "asked again. Use no state, clock or random numbers."
                )
            check_plugin_releases(first)
            if not first:
                raise Fault("expected at least one release, got none. Fix releases().")
    return None


@check_each("learner")
def more_noise_costs_less(learner: Learner) -> Remark:
    """More noise never costs more."""
    if not has_own_fit(learner):
        return BUILT_IN
    for facts in accepted_cases(learner):
        costs = [_cost(learner, facts, scale=scale) for scale in SCALES]
        if any(later > before * (1 + ROUNDING) for before, later in pairwise(costs)):
            raise Fault(
                "expected a lower epsilon at a larger scale, got "
                f"{', '.join(f'{cost:.4g}' for cost in costs)} at {', '.join(map(str, SCALES))}. "
                "Scale the noise of every release with it."
            )
        if learner.scale is None and not costs[-1] < costs[0]:
            raise Fault(
                "expected the scale to change what the releases cost, got the same epsilon at "
                "every one. Build events from scale, or offer no `auto`."
            )
    return None


@check_each("learner")
def secret_count(learner: Learner) -> Remark:
    """Where the number of records is secret, it plans without it or refuses before it charges."""
    if not has_own_fit(learner):
        return BUILT_IN
    facts = replace(accepted_cases(learner)[0], records=None, relation="add_remove")
    try:
        learner.releases(facts, scale=1.0)
        untrained(learner, facts)
    except DppipeError:
        return "it refuses add_remove"
    try:
        fit_recorded(learner, facts)
    except Exception as error:
        raise Fault(
            f"expected releases() or module() to refuse facts.records None, got "
            f"{type(error).__name__} from fit, after a charge. Divide by a constant of the spec, "
            "or raise a UsageError in releases()."
        ) from error
    return None


@check_kind("learner")
def plan_lands_on_budget(trial: Trial) -> Remark:
    """A plan with it lands on its budget."""
    learner = cast(Learner, trial.made[0])
    if not has_own_fit(learner) or learner.scale is not None:
        return "nothing to calibrate"
    budget = Budget(epsilon=2.0, delta=1e-6)
    facts = accepted_cases(learner)[0]
    parts = LearnerParts(learner, Pld(), budget, facts.unit)
    plan = plan_releases(parts, facts, name="check", learner=learner.kind, **DEFAULT_FACTS)
    if plan.epsilon is None or not 0.95 * budget.epsilon <= plan.epsilon <= budget.epsilon:
        raise Fault(f"expected epsilon {budget.epsilon:g}, got {plan.epsilon}.")
    return None


@check_each("learner")
def fits(learner: Learner) -> Remark:
    """It fits made-up records of several kinds, and asks for every planned release in order."""
    if not has_own_fit(learner):
        return BUILT_IN
    cases = accepted_cases(learner)
    for facts in cases:
        fitted = fit_recorded(learner, facts)
        asked = [release.what for release, _ in fitted.used]
        planned = [release.what for release in fitted.plan.releases]
        if asked != planned:
            raise Fault(
                f"expected the planned releases {', '.join(planned)}, got "
                f"{', '.join(asked) or 'none'} from fit. Use each, or plan fewer."
            )
    refused = len(CASES) - len(cases)
    return f"it refuses {refused} of {len(CASES)} kinds of records" if refused else None


@check_each("learner")
def reads_inside(learner: Learner) -> Remark:
    """It reads records inside the gate alone."""
    if not has_own_fit(learner):
        return BUILT_IN
    for facts in accepted_cases(learner):
        if fit_recorded(learner, facts).read_outside:
            raise Fault(
                "expected records to be read by the gate alone, got a read of job.records. Hand "
                "the gate a function of one unit."
            )
    return None


@check_each("learner")
def one_unit_moves_by_the_bound(learner: Learner) -> Remark:
    """One unit, however extreme or broken, moves what is noised by its bound at most."""
    if not has_own_fit(learner):
        return BUILT_IN
    for facts in accepted_cases(learner):
        without = _changed(facts, _raise)
        fitted = fit_recorded(learner, facts, records=without)
        for name, change in CHANGES.items():
            records = _changed(facts, change)
            other = fit_recorded(learner, facts, records=records, replayed=fitted.outputs)
            _require_bound(fitted, other, f"a unit {name} in place of none")
        usual = fit_recorded(learner, facts, replayed=fitted.outputs)
        _require_bound(fitted, usual, "a unit in place of none")
    return f"{len(CHANGES)} units tried"


@check_each("learner")
def weights_load(learner: Learner) -> Remark:
    """What fit returns loads into a fresh module, and is finite."""
    if not has_own_fit(learner):
        return BUILT_IN
    for facts in accepted_cases(learner):
        fitted = fit_recorded(learner, facts)
        state = _state(fitted)
        fresh = untrained(learner, facts)
        try:
            fresh.load_state_dict(state)
        except RuntimeError as error:
            raise Fault(
                f"expected weights that load into module(facts), got: {_first_line(error)}. "
                "Return job.module with its tensors as they are shaped."
            ) from error
        if not all(bool(tensor.isfinite().all()) for tensor in state.values()):
            raise Fault("expected finite weights from made-up records, got others.")
    return None


def _cost(learner: Learner, facts: PublicFacts, *, scale: float) -> float:
    events = [(release.event, release.count) for release in learner.releases(facts, scale=scale)]
    return Rdp().compose(events, relation="zero_out").epsilon(1e-5)


def _changed(facts: PublicFacts, change: Change) -> MadeUpRecords:
    records = MadeUpRecords(facts)
    records.change = change
    return records


def _require_bound(fitted: Fitted, other: Fitted, what: str) -> None:
    for (release, one), (_, two) in zip(fitted.used, other.used, strict=True):
        name = type(release.event).__name__
        order = {"LaplaceDpEvent": 1.0, "ExponentialMechanismDpEvent": math.inf}.get(name, 2.0)
        moved = float(torch.linalg.vector_norm(one.value - two.value, order))
        if not moved <= one.sensitivity * (1 + ROUNDING):
            raise Fault(
                f"expected {what} to move the sum of {release.what!r} by {one.sensitivity:g} at "
                f"most, got {moved:g}. One unit's value may follow from that unit alone: keep "
                "nothing between calls."
            )


def _state(fitted: Fitted) -> dict[str, Tensor]:
    if not isinstance(fitted.trained, nn.Module):
        raise Fault(
            f"expected fit to return a module, got {type(fitted.trained).__name__}. Return "
            "job.module."
        )
    return dict(fitted.trained.state_dict())


def _first_line(error: Exception) -> str:
    return shorten(" ".join(str(error).split()), 200)


@contextmanager
def _without_torch() -> Iterator[None]:
    """Let imports of torch fail during a block, as planning does without it."""
    kept = sys.modules["torch"]
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    except ImportError as error:
        raise Fault(
            "expected releases() to do without torch, got an import of it. Import it inside "
            "module() and fit()."
        ) from error
    finally:
        sys.modules["torch"] = kept
