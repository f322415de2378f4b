"""From parts to a plan: the steps, the noise that lands on the budget, and the epsilon after each step.

`make_plan` reads a spec; `plan_privacy` does the same for parts that were made in Python. Neither reads a record: the only
fact about the data is the number of records, and not even that where the relation keeps it secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from dppipe.clipper_abilities import failure_delta
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.clipping_plan import clipping_numbers
from dppipe.planning.data_source import DataSource, source_of_data
from dppipe.planning.earlier import refuse_earlier, with_earlier
from dppipe.planning.leftover import refuse_spent
from dppipe.planning.noise_limits import refuse_noise
from dppipe.planning.odometers import odometer, rounding
from dppipe.planning.parts import PrivateParts, parts_of
from dppipe.planning.plan import CurvePoint, Plan
from dppipe.planning.recognition import recognise
from dppipe.planning.timetable import Timetable, refuse_length, steps_for
from dppipe.privacy.accountants.base import Accountant, require_certificate
from dppipe.privacy.budget import Budget
from dppipe.privacy.calibration import affordable_steps, calibrate
from dppipe.privacy.events.sequences import Steps, first
from dppipe.privacy.filters.step_filters import step_filter
from dppipe.privacy.printing import shown
from dppipe.spec.spec import Spec, committed_hash, spec_hash

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.sampling.base import Sampler

__all__ = ["PrivateParts", "make_plan", "parts_of", "plan_privacy"]


def plan_privacy(
    parts: PrivateParts,
    *,
    name: str,
    records: int | None,
    steps: int | None = None,
    epochs: float | None = None,
    holdout: Literal["public", "private"] = "private",
    diagnostics: Literal["off", "nonprivate"] = "off",
    pretrained: bool = False,
    own_module: bool = False,
    split: Literal["position", "hash"] | None = None,
    data: DataSource | None = None,
    reproducible: bool = False,
    spec_hash: str = "",
    committed_hash: str = "",
    plugins: Mapping[str, str] | None = None,
    allow_estimate: bool = False,
) -> Plan:
    """Commit to a run: `steps` or `epochs`, or neither to go on until the budget is spent.

    `records` is the number of users where the sampler draws users; under add_remove it isn't looked at. With `allow_estimate` a
    plan may rest on an accountant that proves nothing: to be looked at, never to be run.
    """
    budget = parts.budget
    public = None if budget is not None and budget.relation == "add_remove" else records
    rate, expected = _batch_numbers(parts, public)
    epoch = parts.sampler.epoch_length(public)
    wanted = (
        steps_for(epochs, parts, rate=rate, epoch=epoch)
        if steps is None and epochs is not None
        else steps
    )
    table = Timetable(parts, rate=rate, expected=expected, epoch=epoch, steps=wanted)
    privacy = (
        _private(table, budget, allow_estimate=allow_estimate) if budget else _not_private(wanted)
    )
    batches = table.batches(privacy["steps"])
    plan = Plan(
        name=name,
        records=public,
        steps_per_epoch=epoch,
        epochwise=parts.sampler.epochwise,
        sampler=parts.sampler.kind,
        sample_rate=rate,
        expected_batch_size=expected,
        batches=batches,
        bounds=table.bounds(privacy["steps"]),
        **_batch_sizes(parts.sampler, public, rates=[run.sample_rate for run in batches] or [rate]),
        **parts.facts,
        holdout=holdout,
        diagnostics=diagnostics,
        pretrained=pretrained,
        own_module=own_module,
        split=split,
        data=data,
        reproducible=reproducible,
        spec_hash=spec_hash,
        committed_hash=committed_hash,
        plugins=dict(plugins or {}),
        **privacy,
    )
    refuse_noise(plan, parts.noise)
    return plan


def _batch_numbers(parts: PrivateParts, public: int | None) -> tuple[float, float]:
    """Give the sample rate and the expected batch size; refuse batches that are too large, and a delta that is."""
    budget = parts.budget
    rate, expected = parts.sampler.rate(public), parts.sampler.expected(public)
    if not 0 < rate <= 1:
        raise UsageError(
            f"sampler: expected a batch no larger than the number of records, got {expected:g}. Lower it."
        )
    if budget is not None and budget.delta >= rate / expected:
        raise PrivacyRefusal(
            f"budget.delta: expected less than 1/records = {rate / expected:.3g}, got {budget.delta:g}. "
            "At that delta a run may publish a whole record; choose a smaller one."
        )
    return rate, expected


def _private(table: Timetable, budget: Budget, *, allow_estimate: bool) -> dict[str, Any]:
    given = table.parts
    given.refuse_together(budget)
    given.refuse_statistics(budget)
    with _naming_earlier(table, budget):
        accountant = with_earlier(
            given.accountant,
            given.earlier,
            before=given.before,
            failure=failure_delta(given.clipping, uses=0),
            relation=budget.relation,
        )
        scale = _noise_scale(table, accountant, budget, allow_estimate=allow_estimate)
        if given.noise.adaptive:
            return _filtered(table, budget, scale=scale)
        charges = _affordable(table, accountant, budget, scale=scale, allow_estimate=allow_estimate)
    events = first(table.events(scale, charges=table.charges or charges), charges)
    steps = min(table.steps or math.inf, charges * table.per_charge)
    noise = table.noise(scale, steps=int(steps))
    parts_of_run = given.accountant.curve_points
    begins_before = given.before or given.earlier
    at = sorted(
        {
            math.ceil(charges * k / parts_of_run)
            for k in range(0 if begins_before else 1, parts_of_run + 1)
        }
    )
    composed = accountant.compose(events, relation=budget.relation)
    if not allow_estimate:
        require_certificate(composed)
    epsilons = accountant.curve(events, at, delta=budget.delta, relation=budget.relation)
    points = zip((min(steps, count * table.per_charge) for count in at), epsilons, strict=True)
    return {
        "private": True,
        "steps": steps,
        "ends_at": "steps" if steps == table.steps else "budget",
        "noise": noise,
        "relation": budget.relation,
        "unit": given.unit,
        "scope": budget.scope,
        "budget_epsilon": budget.epsilon,
        "delta": budget.delta,
        "accountant": given.accountant.kind,
        "certified": composed.certified,
        "epsilon": epsilons[-1],
        "curve": tuple(CurvePoint(step=int(step), epsilon=epsilon) for step, epsilon in points),
        "odometer": odometer(accountant, events, budget, at=at, table=table, steps=int(steps))
        if composed.certified
        else (),
        "whole_curve": composed.points() | rounding(accountant, events, budget),
        **clipping_numbers(
            given.clipping, noise, expected_batch_size=table.expected, uses=table.uses(int(steps))
        ),
    }


@contextmanager
def _naming_earlier(table: Timetable, budget: Budget) -> Iterator[None]:
    """Refuse earlier runs that can't be counted; where nothing fits beside the others, say what they cost."""
    parts = table.parts
    if parts.earlier is None:
        yield
        return
    alone = refuse_earlier(
        parts.earlier, budget, parts.accountant, unit=parts.unit, adaptive=parts.noise.adaptive
    )
    refuse_spent(table, budget, parts.earlier, cost=alone)
    try:
        yield
    except PrivacyRefusal as error:
        spent = f"The weights of {parts.earlier.names}, which it starts from, cost epsilon {shown(alone)}."
        raise PrivacyRefusal(f"{error} {spent}") from error


def _filtered(table: Timetable, budget: Budget, *, scale: float) -> dict[str, Any]:
    """Plan a run whose noise follows released values: only its budget is certain, and that no filter is exceeded."""
    steps = (
        table.steps or 0
    )  # a schedule that moves has a last step, or `_noise_scale` has refused it
    events, noise = table.events(scale, charges=steps), table.noise(scale, steps=steps)
    if not step_filter(table.parts.accountant.kind, budget=budget, planned=events).fits(
        events[0][0]
    ):
        raise _nothing_fits("step", budget, scale)
    return {
        "private": True,
        "schedule": "filter",
        "steps": steps,
        "ends_at": "steps",
        "noise": noise,
        "relation": budget.relation,
        "unit": table.parts.unit,
        "scope": budget.scope,
        "budget_epsilon": budget.epsilon,
        "delta": budget.delta,
        "accountant": table.parts.accountant.kind,
        "certified": True,
        "epsilon": budget.epsilon,
        "curve": (CurvePoint(step=steps, epsilon=budget.epsilon),),
        "whole_curve": {},
        **clipping_numbers(
            table.parts.clipping, noise, expected_batch_size=table.expected, uses=table.uses(steps)
        ),
    }


def _nothing_fits(what: str, budget: Budget, scale: float) -> PrivacyRefusal:
    return PrivacyRefusal(
        f"budget.epsilon: not one {what} fits in epsilon {budget.epsilon:g} at noise multiplier {scale:g}. "
        "Raise noise.noise_multiplier, lower the sample rate, or take noise_multiplier: auto with steps or epochs."
    )


def _noise_scale(
    table: Timetable, accountant: Accountant, budget: Budget, *, allow_estimate: bool
) -> float:
    noise, charges = table.parts.noise, table.charges
    if charges is None and table.needs_last_step is not None:
        raise UsageError(
            f"train: expected steps or epochs: {table.needs_last_step} needs to know its last step."
        )
    if noise.noise_multiplier != "auto":
        return float(noise.noise_multiplier)
    if charges is None:
        raise UsageError(
            "train: expected steps or epochs: noise_multiplier: auto makes the budget last that long."
        )
    found = calibrate(
        accountant,
        lambda scale: table.events(scale, charges=charges),
        budget=budget,
        allow_estimate=allow_estimate,
    )
    return found.scale


def _affordable(
    table: Timetable, accountant: Accountant, budget: Budget, *, scale: float, allow_estimate: bool
) -> int:
    """Give the charges that fit in the budget: no step is taken in an epoch that can't be paid for as a whole."""
    if table.charges is not None and table.parts.noise.noise_multiplier == "auto":
        return table.charges
    planned: DpEvent | Steps = (
        table.parts.event(scale, rate=table.rate)
        if table.charges is None
        else table.events(scale, charges=table.charges)
    )
    count = affordable_steps(
        accountant, planned, budget=budget, at_most=table.charges, allow_estimate=allow_estimate
    )
    if count == 0:
        raise _nothing_fits("step" if table.per_charge == 1 else "epoch", budget, scale)
    refuse_length(count * table.per_charge)
    return count


def _not_private(wanted: int | None) -> dict[str, Any]:
    if wanted is None:
        raise UsageError(
            "train.until: expected steps or epochs: without a budget there is none to train until."
        )
    return {
        "private": False,
        "steps": wanted,
        "ends_at": "steps",
        "noise": (),
        "relation": None,
        "unit": "example",
        "scope": None,
        "budget_epsilon": None,
        "delta": None,
        "accountant": None,
        "certified": False,
        "epsilon": None,
        "curve": (),
        "whole_curve": {},
    }


def _batch_sizes(
    sampler: Sampler, records: int | None, *, rates: Sequence[float]
) -> dict[str, Any]:
    """Give the chance of an empty batch, and the batch size that a step exceeds about once in a million."""
    if records is None:
        return {"empty_batch_probability": None, "largest_likely_batch": None}
    if sampler.fixed_size:
        return {
            "empty_batch_probability": 0.0,
            "largest_likely_batch": math.ceil(sampler.expected(records)),
        }
    from scipy.stats import binom

    return {
        "empty_batch_probability": (1 - min(rates)) ** records,
        "largest_likely_batch": min(
            int(binom.isf(1e-6, records, max(rates))), sampler.largest() or records
        ),
    }


def make_plan(spec: Spec, *, allow_estimate: bool = False) -> Plan:
    """Commit to what a spec says; only the number of records, or of users, is asked of its data, and only if it is public."""
    return plan_privacy(
        replace(parts_of(spec), earlier=recognise(spec)),
        name=spec.name,
        records=spec.public_count(),
        steps=spec.train.steps,
        epochs=spec.train.epochs,
        holdout=spec.data.holdout,
        diagnostics=spec.diagnostics,
        pretrained=spec.model.pretrained is not None,
        own_module=not type(spec.model).__module__.startswith("dppipe.models.")
        or spec.model.kind == "class_path",
        split="hash" if _keeps_count_secret(spec) else "position",
        data=source_of_data(spec.data),
        reproducible=spec.reproducible,
        spec_hash=spec_hash(spec),
        committed_hash=committed_hash(spec),
        plugins=spec.plugin_files(),
        allow_estimate=allow_estimate,
    )


def _keeps_count_secret(spec: Spec) -> bool:
    return spec.budget != "none" and spec.budget.relation == "add_remove"
