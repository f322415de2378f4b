"""From parts to a plan: the steps, the noise that lands on the budget, and the epsilon after each step.

`make_plan` reads a spec; `plan_privacy` does the same for parts that were made in Python. Neither reads a record: the only
fact about the data is the number of records, and not even that where the relation keeps it secret.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.clipping_plan import clipping_numbers, refuse_clipping
from dppipe.planning.plan import CurvePoint, NoiseRun, Plan
from dppipe.privacy.accountants.base import Accountant, Steps, require_certificate
from dppipe.privacy.budget import Budget
from dppipe.privacy.calibration import affordable_steps, calibrate
from dppipe.privacy.failures import with_failure
from dppipe.spec.spec import Spec, committed_hash, spec_hash

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.clipping.base import Clipper
    from dppipe.noise.base import NoiseSchedule
    from dppipe.sampling.base import Sampler

CURVE_POINTS = 20
"""Epsilon is computed at each twentieth of a run; each point costs PLD about a tenth of a second."""


@dataclass(frozen=True)
class PrivateParts:
    """The components that decide privacy, in the order in which a step uses them."""

    sampler: Sampler
    clipping: Clipper
    noise: NoiseSchedule
    accountant: Accountant
    budget: Budget | None

    def event(self, noise_multiplier: float, *, rate: float) -> DpEvent:
        """Give the privacy event of one step: the sampler wraps the mechanism that the schedule describes."""
        return self.sampler.event(self.noise.event(noise_multiplier), rate=rate)

    def steps(self, scale: float, *, count: int, rate: float) -> Steps:
        """Give the events of a run of `count` steps at this noise scale, equal neighbours together."""
        runs = groupby(scale * relative for relative in self.noise.relative(count))
        return [(self.event(multiplier, rate=rate), sum(1 for _ in run)) for multiplier, run in runs]


def plan_privacy(
    parts: PrivateParts,
    *,
    name: str,
    records: int,
    steps: int | None = None,
    epochs: float | None = None,
    holdout: Literal["public", "private"] = "private",
    diagnostics: Literal["off", "nonprivate"] = "off",
    reproducible: bool = False,
    spec_hash: str = "",
    committed_hash: str = "",
    plugins: Mapping[str, str] | None = None,
) -> Plan:
    """Commit to a run: `steps` or `epochs`, or neither to go on until the budget is spent."""
    budget = parts.budget
    public = None if budget is not None and budget.relation == "add_remove" else records
    rate, expected = parts.sampler.rate(public), parts.sampler.expected(public)
    if not 0 < rate <= 1:
        raise UsageError(f"sampler: expected a batch no larger than the number of records, got {expected:g}. Lower it.")
    if budget is not None and budget.delta >= rate / expected:
        raise PrivacyRefusal(
            f"budget.delta: expected less than 1/records = {rate / expected:.3g}, got {budget.delta:g}. "
            "At that delta a run may publish a whole record; choose a smaller one."
        )
    wanted = steps if steps is not None else math.ceil(epochs / rate) if epochs is not None else None
    privacy = _private(parts, budget, rate=rate, expected=expected, wanted=wanted) if budget else _not_private(wanted)
    return Plan(
        name=name,
        records=public,
        steps_per_epoch=epoch_length(rate),
        sampler=parts.sampler.kind,
        sample_rate=rate,
        expected_batch_size=expected,
        empty_batch_probability=(1 - rate) ** public if public is not None else None,
        largest_likely_batch=_largest_likely_batch(public, rate),
        clipping=parts.clipping.kind,
        max_grad_norm=parts.clipping.max_grad_norm,
        mechanism=parts.noise.mechanism,
        holdout=holdout,
        diagnostics=diagnostics,
        reproducible=reproducible,
        spec_hash=spec_hash,
        committed_hash=committed_hash,
        plugins=dict(plugins or {}),
        **privacy,
    )


def epoch_length(rate: float) -> int:
    """Give the steps of an epoch: as many as it takes to draw each record once on average."""
    return max(1, round(1 / rate))


def _private(given: PrivateParts, budget: Budget, *, rate: float, expected: float, wanted: int | None) -> dict[str, Any]:
    refuse_clipping(given.clipping, budget)
    parts = replace(given, accountant=with_failure(given.accountant, given.clipping.failure_delta(uses=0)))
    scale = _noise_scale(parts, budget, rate=rate, wanted=wanted)
    count = _affordable(parts, budget, scale=scale, rate=rate, wanted=wanted)
    multipliers = [scale * relative for relative in parts.noise.relative(wanted or count)][:count]
    noise = tuple(NoiseRun(noise_multiplier=z, steps=sum(1 for _ in run)) for z, run in groupby(multipliers))
    steps = [(parts.event(run.noise_multiplier, rate=rate), run.steps) for run in noise]
    at = sorted({math.ceil(count * k / CURVE_POINTS) for k in range(1, CURVE_POINTS + 1)})
    composed = require_certificate(parts.accountant.compose(steps, relation=budget.relation))
    epsilons = parts.accountant.curve(steps, at, delta=budget.delta, relation=budget.relation)
    return {
        "private": True,
        "steps": count,
        "ends_at": "steps" if count == wanted else "budget",
        "noise": noise,
        "relation": budget.relation,
        "unit": budget.unit,
        "scope": budget.scope,
        "budget_epsilon": budget.epsilon,
        "delta": budget.delta,
        "accountant": given.accountant.kind,
        "certified": composed.certified,
        "epsilon": epsilons[-1],
        "curve": tuple(CurvePoint(step=step, epsilon=epsilon) for step, epsilon in zip(at, epsilons, strict=True)),
        "whole_curve": composed.points(),
        **clipping_numbers(parts.clipping, noise, expected_batch_size=expected, sample_rate=rate),
    }


def _noise_scale(parts: PrivateParts, budget: Budget, *, rate: float, wanted: int | None) -> float:
    if wanted is None and not parts.noise.constant:
        raise UsageError(f"train: expected steps or epochs: the noise schedule {parts.noise.kind!r} needs to know its last step.")
    if parts.noise.noise_multiplier != "auto":
        return float(parts.noise.noise_multiplier)
    if wanted is None:
        raise UsageError("train: expected steps or epochs: noise_multiplier: auto makes the budget last that long.")
    return calibrate(parts.accountant, lambda scale: parts.steps(scale, count=wanted, rate=rate), budget=budget).scale


def _affordable(parts: PrivateParts, budget: Budget, *, scale: float, rate: float, wanted: int | None) -> int:
    if wanted is not None and parts.noise.noise_multiplier == "auto":
        return wanted
    planned: DpEvent | Steps = parts.event(scale, rate=rate) if wanted is None else parts.steps(scale, count=wanted, rate=rate)
    count = affordable_steps(parts.accountant, planned, budget=budget, at_most=wanted)
    if count == 0:
        raise PrivacyRefusal(
            f"budget.epsilon: not one step fits in epsilon {budget.epsilon:g} at noise multiplier {scale:g}. "
            "Raise noise.noise_multiplier, lower the sample rate, or take noise_multiplier: auto."
        )
    return count


def _not_private(wanted: int | None) -> dict[str, Any]:
    if wanted is None:
        raise UsageError("train.until: expected steps or epochs: without a budget there is none to train until.")
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


def _largest_likely_batch(records: int | None, rate: float) -> int | None:
    """Give the batch size that a step exceeds about once in a million."""
    if records is None:
        return None
    from scipy.stats import binom

    return int(binom.isf(1e-6, records, rate))


def make_plan(spec: Spec) -> Plan:
    """Commit to what a spec says; only the number of records is asked of its data."""
    budget = None if spec.budget == "none" else spec.budget
    return plan_privacy(
        PrivateParts(spec.sampler, spec.clipping, spec.noise, spec.accountant, budget),
        name=spec.name,
        records=spec.data.train_count(),
        steps=spec.train.steps,
        epochs=spec.train.epochs,
        holdout=spec.data.holdout,
        diagnostics=spec.diagnostics,
        reproducible=spec.reproducible,
        spec_hash=spec_hash(spec),
        committed_hash=committed_hash(spec),
        plugins=spec.plugin_files(),
    )
