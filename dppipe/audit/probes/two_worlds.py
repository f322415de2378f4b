"""Two worlds of a learner's release itself, on a small made-up set.

Noise inside a solver and selections aren't sums with noise on them, so their release is compared
with the claim as it is: with the canary and without it. Direction and thresholds are fixed by a
pilot whose draws are thrown away.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from dppipe.audit.probes.fit import probe_fit
from dppipe.audit.probes.influence import measure_influence
from dppipe.audit.probes.learner_subject import LearnerSubject, make_learner_subject
from dppipe.audit.probes.noise import probe_noise
from dppipe.audit.probes.threshold_tests import (
    count_worlds,
    detection_rate,
    epsilon_ceiling,
    largest_epsilon,
    normal_cells,
    p_value,
    shown_counts,
)
from dppipe.audit.probes.verdict import LEVEL, ProbeResult
from dppipe.privacy.accountants.base import Composition
from dppipe.privacy.events.multipliers import mechanism_of
from dppipe.privacy.tradeoff.blow_up import blow_up_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dppipe.audit.probes.canaries import Canary
    from dppipe.audit.probes.learner_subject import LearnerRelease
    from dppipe.audit.probes.made_up_records import MadeUpRecords
    from dppipe.planning.plan import Plan
    from dppipe.privacy.tradeoff.blow_up import BlowUp
    from dppipe.spec.spec import Spec

    Floats = NDArray[np.float64]
    Progress = Callable[[str, int, int], None]

NOISED_SUMS = ("mean", "output_perturbation", "linear_regression")
"""Learners whose one release is a value with noise on it; means of blocks are one too."""
IN_TWO_WORLDS = ("objective_perturbation", "exponential", "output_perturbation")
_PILOT = 60
"""Draws a world that fix direction and thresholds."""
_MOST_DRAWS = 5000
_LEAST_DRAWS = 100
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)


def probe_learner(
    spec: Spec, plan: Plan, *, seconds: float, progress: Progress
) -> tuple[list[ProbeResult], tuple[str, ...]]:
    """Return the results of a learner's probes, and notes on what has none.

    Without a probe for the learner there are no results.
    """
    kind = spec.learner.kind
    noised = kind in NOISED_SUMS or _is_mean_of_blocks(spec)
    if not noised and kind not in IN_TWO_WORLDS:
        return [], (f"learner {kind}: no probe knows its releases",)
    subject = make_learner_subject(spec, plan)
    notes: tuple[str, ...] = ("made-up records only: how the data is read isn't tested",)
    if spec.data.preludes:
        notes += ("releases before the learner's own have no probe here",)
    if len(subject.plan.releases) != 1:
        return [], (f"learner {kind}: a probe knows one release, got another number",)
    gaussian_or_laplace = mechanism_of(subject.plan.releases[0].dp_event) != "spherical"
    if noised and gaussian_or_laplace:
        return _probe_sum(subject, seconds=seconds, progress=progress), notes
    return [_probe_worlds(subject, seconds=seconds, progress=progress)], notes


def _is_mean_of_blocks(spec: Spec) -> bool:
    learner = spec.learner
    return learner.kind == "subsample_aggregate" and getattr(learner, "aggregate", "") == "mean"


def _probe_sum(subject: LearnerSubject, *, seconds: float, progress: Progress) -> list[ProbeResult]:
    """Return the probes of a value with noise on it: all but those of a sampler."""
    progress("influence", 0, 1)
    influence = measure_influence(subject)
    progress("noise", 0, 1)
    noise = probe_noise(
        subject,
        influence,
        seconds=seconds,
        progress=lambda draws: None,
        keep_counts=lambda counts: None,
    )
    progress("fit", 0, 1)
    return [influence.result, noise, probe_fit(subject, [], progress=lambda draws: None)]


@dataclass(frozen=True)
class _Pilot:
    """What is fixed before the draws that count."""

    direction: torch.Tensor
    thresholds: Floats

    def score(self, release: torch.Tensor) -> float:
        """Return a number that is larger in world 1."""
        return float(release @ self.direction)


def _probe_worlds(subject: LearnerSubject, *, seconds: float, progress: Progress) -> ProbeResult:
    """Compare releases of both worlds with the plan's whole claim."""
    certificate = _certificate(subject)
    claim = blow_up_of(certificate.curve)
    records, release = subject.full(others=0, steps=0)
    canary = _canary(subject)
    selects = subject.spec.learner.kind == "exponential"
    started = time.monotonic()
    pilot = _selection_pilot(records, release, canary) if selects else None
    pilot = pilot or _pilot(subject, records, release, canary)
    each = release.seconds_each()
    left = max(1.0, seconds - (time.monotonic() - started))
    draws = max(_LEAST_DRAWS, min(_MOST_DRAWS, int(left / each / 2)))
    scores: list[list[float]] = [[], []]
    for done in range(draws):
        for world, held in enumerate((None, canary)):
            records.hold(None if held is None else held.row)
            scores[world].append(pilot.score(_chosen(release, selects=selects)))
        progress("two worlds", done, draws)
    return _result(subject, certificate, claim, pilot, np.array(scores[0]), np.array(scores[1]))


def _chosen(release: LearnerRelease, *, selects: bool) -> torch.Tensor:
    """Return a release as a vector; a choice has a 1 at its candidate."""
    drawn = release.draw()
    if not selects or release.gate.bounded is None:
        return drawn
    chosen = torch.zeros(release.gate.bounded.value.numel(), dtype=torch.float64)
    chosen[int(release.gate.released)] = 1.0
    return chosen


def _canary(subject: LearnerSubject) -> Canary:
    """Return the canary that moves most what would be released, or scored, without noise."""
    canaries = subject.canaries()
    records, release = subject.full(others=0, steps=0, silent=True)

    def seen(canary: Canary | None) -> torch.Tensor:
        records.hold(None if canary is None else canary.row)
        drawn = release.draw()
        bounded = release.gate.bounded
        return drawn if bounded is None else bounded.value.double()

    without = seen(None)
    moved = [float(torch.nan_to_num(seen(one) - without).std()) for one in canaries]
    return canaries[int(np.argmax(moved))]


def _certificate(subject: LearnerSubject) -> Composition:
    releases = subject.plan.releases
    events = [(release.dp_event, release.count) for release in releases]
    return subject.spec.accountant.compose(events, relation=subject.relation)


def _pilot(
    subject: LearnerSubject, records: MadeUpRecords, release: LearnerRelease, canary: Canary
) -> _Pilot:
    """Fix the direction between both worlds without noise, and thresholds at quantiles."""
    silent_records, silent = subject.full(others=0, steps=0, silent=True)
    worlds = []
    sums = []
    for held in (None, canary):
        row = None if held is None else held.row
        silent_records.hold(row)
        sums.append(silent.draw())
        records.hold(row)
        worlds.append(torch.stack([release.draw() for _ in range(_PILOT)]))
    spread = torch.cat([world - world.mean(0) for world in worlds]).square().mean(0)
    direction = (sums[1] - sums[0]) / spread.clamp(min=1e-30)  # as if coordinates were independent
    scores = torch.cat(worlds) @ direction
    return _Pilot(direction, np.unique(np.quantile(scores.numpy(), _QUANTILES)))


def _selection_pilot(
    records: MadeUpRecords, release: LearnerRelease, canary: Canary
) -> _Pilot | None:
    """Watch the candidate whose score the canary raises most, relative to the others."""
    scores = []
    for held in (None, canary):
        records.hold(None if held is None else held.row)
        release.draw()
        if release.gate.bounded is None:
            return None
        scores.append(release.gate.bounded.value.double().clone())
    moved = scores[1] - scores[0]
    direction = torch.zeros_like(moved)
    direction[int((moved - moved.mean()).argmax())] = 1.0
    return _Pilot(direction, np.array([0.5]))


def _power(pilot: _Pilot, claim: BlowUp, scores: tuple[Floats, Floats], *, draws: int) -> float:
    """Return how often noise of half the size would be found, if scores were normal.

    Of a choice: how often one by twice the epsilon would be found.
    """
    if len(pilot.thresholds) == 1:
        cells = []
        for world in scores:
            chance = float(np.clip(world.mean(), 1e-6, 1 - 1e-6))
            odds = (chance / (1 - chance)) ** 2  # twice the epsilon squares each ratio
            cells.append(np.array([1 / (1 + odds), odds / (1 + odds)]))
    else:
        cells = []
        for world in scores:
            std = max(float(world.std()), 1e-300) / 2
            cells.append(normal_cells(pilot.thresholds, mean=float(world.mean()), std=std))
    return detection_rate(cells[0], cells[1], claim, draws=draws, error=LEVEL)


def _result(
    subject: LearnerSubject,
    certificate: Composition,
    claim: BlowUp,
    pilot: _Pilot,
    without: Floats,
    with_: Floats,
) -> ProbeResult:
    worlds = count_worlds(without, with_, pilot.thresholds)
    draws = len(without)
    delta = subject.plan.delta or 1e-5
    claimed = certificate.epsilon(delta)
    epsilon = largest_epsilon(worlds, delta=delta, error=LEVEL)
    ceiling = epsilon_ceiling(draws, thresholds=len(worlds), delta=delta, error=LEVEL)
    selects = len(pilot.thresholds) == 1
    return ProbeResult(
        probe="two worlds",
        claimed=f"epsilon {claimed:.4g} at delta {delta:g}, the whole release",
        measured=f"epsilon >= {epsilon:.2g}, {draws:,} releases a world on a small made-up set",
        p_value=p_value(worlds, claim),
        level=LEVEL,
        fault="a choice by twice the epsilon" if selects else "noise 2x too small",
        power=_power(pilot, claim, (without, with_), draws=draws),
        ratio=epsilon / claimed,
        ceiling=ceiling / claimed,
        numbers={
            "draws_a_world": draws,
            "pilot_draws_a_world": _PILOT,
            "thresholds": pilot.thresholds.tolist(),
            **shown_counts(worlds),
            "delta": delta,
            "epsilon_claimed": claimed,
            "epsilon_at_least": epsilon,
            "epsilon_ceiling": ceiling,
        },
    )
