"""The probe "transcript": whole epochs of real releases, at a noise small enough to see the draw.

The chance of each record at each step is the same under shuffled and under Poisson batches, so a
run's own noise hides which of both is drawn. At a probe noise of 0.3 and ten steps an epoch 300
epochs a world show it (`docs/audit.md`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dppipe.audit.probes.noise import Score
from dppipe.audit.probes.observed_step import TIMED_STEPS
from dppipe.audit.probes.threshold_tests import (
    count_worlds,
    detection_rate,
    epsilon_ceiling,
    largest_epsilon,
    p_value,
    sample_cells,
    shown_counts,
)
from dppipe.audit.probes.verdict import SHARES, ProbeResult
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.tradeoff.blow_up import blow_up_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.counts import TwoWorlds
    from dppipe.audit.probes.influence import Influence
    from dppipe.audit.probes.noise import Progress
    from dppipe.audit.probes.subject import Subject
    from dppipe.privacy.accountants.base import Composition

    Floats = NDArray[np.float64]

PROBE_NOISE = 0.3
STEPS = 10
"""The steps of an epoch; the sample rate is one over it."""
EPOCHS = 300
"""Epochs a world."""
_LEAST_EPOCHS = 100
_OTHERS = 19
_PILOT = 100_000
_QUANTILES = (0.5, 0.8, 0.9, 0.97, 0.99)


def can_transcribe(subject: Subject) -> bool:
    """Return whether the probe knows the sampler and the noise of a run."""
    known = subject.parts.sampler.kind in ("poisson", "user")
    return known and subject.plan.mechanism == "gaussian"


def probe_transcript(
    subject: Subject, influence: Influence, *, seconds: float, progress: Progress
) -> ProbeResult:
    """Release epochs in both worlds, and compare a score of each with the certificate's curve."""
    level = SHARES["transcript"]
    records, step = subject.set_up(
        subject.parts.sampler,
        rate=1 / STEPS,
        multiplier=PROBE_NOISE,
        others=_OTHERS,
        steps=2 * EPOCHS * STEPS + TIMED_STEPS,
    )
    certificate = _certificate(subject)
    shifts, direction = _shifts(subject, influence)
    thresholds = np.unique(np.quantile(_score(_pilot(), shifts), _QUANTILES))
    each = step.seconds_each() * STEPS
    epochs = max(_LEAST_EPOCHS, min(EPOCHS, int(seconds / each / 2)))
    scores: list[list[Floats]] = [[], []]
    for _ in range(epochs):
        for world, canary in enumerate((influence.without, influence.with_)):
            records.hold(None if canary is None else canary.row)
            scores[world].append(np.array([direction(step.draw()) for _ in range(STEPS)]))
        progress(2 * STEPS)
    found = [_score(np.array(world), shifts) for world in scores]
    worlds = count_worlds(found[0], found[1], thresholds)
    shuffled = [sample_cells(thresholds, _score(_shuffled(one), shifts)) for one in shifts]
    power = detection_rate(
        shuffled[0], shuffled[1], blow_up_of(certificate.curve), draws=epochs, error=level
    )
    return _result(certificate, worlds, thresholds, delta=subject.plan.delta or 1e-5, power=power)


def _result(
    certificate: Composition,
    worlds: list[TwoWorlds],
    thresholds: Floats,
    *,
    delta: float,
    power: float,
) -> ProbeResult:
    level = SHARES["transcript"]
    epochs = worlds[0].draws_with
    claimed = certificate.epsilon(delta)
    epsilon = largest_epsilon(worlds, delta=delta, error=level)
    ceiling = epsilon_ceiling(epochs, thresholds=len(thresholds), delta=delta, error=level)
    steps = f"{STEPS} steps at noise {PROBE_NOISE:g}, rate {1 / STEPS:g}"
    return ProbeResult(
        probe="transcript",
        claimed=f"{steps}: epsilon {claimed:.3g}",
        measured=f"epsilon >= {epsilon:.2g}, {epochs} epochs a world",
        p_value=p_value(worlds, blow_up_of(certificate.curve)),
        level=level,
        fault="shuffled batches charged as Poisson",
        power=power,
        ratio=epsilon / claimed,
        ceiling=ceiling / claimed,
        numbers={
            "noise_multiplier": PROBE_NOISE,
            "steps": STEPS,
            "epochs_a_world": epochs,
            "thresholds": thresholds.tolist(),
            **shown_counts(worlds),
            "delta": delta,
            "epsilon_claimed": claimed,
            "epsilon_at_least": epsilon,
            "epsilon_ceiling": ceiling,
        },
    )


def _certificate(subject: Subject) -> Composition:
    """Return what ten steps are charged at the probe noise."""
    parts = subject.parts
    event = parts.event(PROBE_NOISE, rate=1 / STEPS)
    try:
        return Pld().compose([(event, STEPS)], relation=subject.relation)
    except PrivacyRefusal:
        return parts.accountant.compose([(event, STEPS)], relation=subject.relation)


def _shifts(subject: Subject, influence: Influence) -> tuple[tuple[float, float], Score]:
    """Return how far a drawn canary of each world moves the score, and the score of one step."""
    records, step = subject.set_up(
        subject.parts.sampler, rate=1.0, multiplier=PROBE_NOISE, others=0, steps=3, silent=True
    )
    claim = step.claim()
    sums = []
    for canary in (None, influence.without, influence.with_):
        records.hold(None if canary is None else canary.row)
        sums.append(step.draw())
    empty, without, with_ = sums
    # Counts of placeholders depend on the draw: the score looks at the gradient alone.
    for one in sums:
        one[claim.width :] = 0
    scored = Score.of_sums(claim, without, with_)
    centred = Score(claim, claim.scaled(empty), scored.moved)
    return (centred(without), centred(with_)), centred


def _score(steps: Floats, shifts: tuple[float, float]) -> Floats:  # [epochs, STEPS] -> [epochs]
    """Return the log-likelihood ratio of shuffled epochs with and without the canary.

    Source: one step of each shuffled epoch has the canary, at a place that is uniform.
    """
    parts = []
    for shift in shifts:
        exponents = shift * steps - shift**2 / 2
        parts.append(special.logsumexp(exponents, axis=1) - math.log(steps.shape[1]))
    return np.asarray(parts[1] - parts[0])


def _pilot() -> Floats:
    return np.random.default_rng(3).standard_normal((_PILOT, STEPS))


def _shuffled(shift: float) -> Floats:
    """Return simulated steps of shuffled epochs whose canary moves one of them."""
    generator = np.random.default_rng(4)
    steps = generator.standard_normal((_PILOT, STEPS))
    steps[np.arange(_PILOT), generator.integers(STEPS, size=_PILOT)] += shift
    return steps
