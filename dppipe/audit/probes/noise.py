"""The probe "noise": one release with the canary and without it, many times.

The canary is always drawn, so what is tested is the mechanism that sampling is wrapped around. The
score is the likelihood ratio's direction: the *measured* difference of both sums. The direction
that a formula expects would miss a layer that isn't clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dppipe.audit.probes.observed_step import TIMED_STEPS
from dppipe.audit.probes.threshold_tests import (
    count_worlds,
    detection_rate,
    draws_for,
    epsilon_ceiling,
    largest_epsilon,
    normal_cells,
    p_value,
    sample_cells,
    shown_counts,
)
from dppipe.audit.probes.verdict import SHARES, ProbeResult

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.audit.probes.influence import Influence
    from dppipe.audit.probes.probed import Probed
    from dppipe.audit.probes.step_claim import StepClaim

    Floats = NDArray[np.float64]

_OTHERS = 4
_LEAST_DRAWS = 100
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
_PILOT = 2000
"""Simulated scores of Laplace noise, from which thresholds are fixed."""
_PILOT_NUMBERS = 20_000_000
"""How many numbers a pilot may draw."""
Progress = Callable[[int], None]
"""Is told how many draws were made since the last time."""


@dataclass(frozen=True)
class Score:
    """A score of one release: large in world 1, small in world 0."""

    claim: StepClaim
    without: Tensor
    """The sum of world 0 in units of the noise, without noise."""
    moved: Tensor
    """How far world 1 is from there."""

    @classmethod
    def of_sums(cls, claim: StepClaim, without: Tensor, with_: Tensor) -> Score:
        """Return the score of two worlds with these sums, which have no noise."""
        scaled = claim.scaled(without)
        return cls(claim, scaled, claim.scaled(with_) - scaled)

    @property
    def shift(self) -> float:
        """How far apart both worlds' scores are on average, for Gaussian noise."""
        return float(self.moved.norm())

    def __call__(self, release: Tensor) -> float:
        """Return the score of noisy sums, in float64.

        Gaussian noise: a number that is N(0, 1) in world 0 and N(shift, 1) in world 1, where the
        shift is at most the claimed one. Laplace noise: the log-likelihood ratio.
        """
        noise = self.claim.scaled(release) - self.without
        if self.claim.mechanism == "laplace":
            return float((noise.abs() - (noise - self.moved).abs()).sum())
        return float(noise @ self.moved) / (self.shift or 1.0)


def probe_noise(
    subject: Probed,
    influence: Influence,
    *,
    seconds: float,
    progress: Progress,
    keep_counts: Callable[[Tensor], None],
) -> ProbeResult:
    """Draw releases of both worlds, and compare their scores with the claim.

    Args:
        subject: What is audited.
        influence: The two worlds.
        seconds: How long the draws may take; fewer draws have less power, which is stated.
        progress: Is told of draws.
        keep_counts: Is given the noise on an adaptive clipper's counts, of each draw in world 0.
    """
    level = SHARES["noise"]
    wanted = draws_for(subject.multiplier)
    records, step = subject.full(others=_OTHERS, steps=2 * wanted + TIMED_STEPS)
    claim = step.claim()
    # The sums of this many placeholders: counts of an adaptive clipper see them.
    silent_records, silent = subject.full(others=_OTHERS, steps=2, silent=True)
    sums = []
    for canary in (influence.without, influence.with_):
        silent_records.hold(None if canary is None else canary.row)
        sums.append(silent.draw())
    score = Score.of_sums(claim, *sums)
    draws = max(_LEAST_DRAWS, min(wanted, int(seconds / step.seconds_each() / 2)))
    thresholds = fixed_thresholds(score)
    scores: list[list[float]] = [[], []]
    for _ in range(draws):
        for world, canary in enumerate((influence.without, influence.with_)):
            records.hold(None if canary is None else canary.row)
            release = step.draw()
            scores[world].append(score(release))
            if world == 0 and claim.counts:
                keep_counts((claim.scaled(release) - score.without)[claim.width :])
        progress(2)
    found = tuple(np.array(values) for values in scores)
    return _result(subject, score, found[0], found[1], thresholds, wanted=wanted, level=level)


def fixed_thresholds(score: Score) -> Floats:
    """Return thresholds that follow from the claim and the measured difference alone."""
    if score.claim.mechanism == "laplace":
        pilot = simulated(score, noise=1.0, seed=1)
        return np.unique(np.quantile(np.concatenate(pilot), _QUANTILES))
    return score.claim.shift / 2 + np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


def simulated(score: Score, *, noise: float, seed: int) -> tuple[Floats, Floats]:
    """Return simulated scores of both worlds under Laplace noise of this relative size."""
    generator = np.random.default_rng(seed)
    moved = score.moved.numpy()
    count = max(_LEAST_DRAWS, min(_PILOT, _PILOT_NUMBERS // max(1, len(moved))))
    worlds = []
    for centre in (np.zeros_like(moved), moved):
        found = []
        for _ in range(count):
            drawn = centre + noise * generator.laplace(size=len(moved))
            found.append((np.abs(drawn) - np.abs(drawn - moved)).sum())
        worlds.append(np.array(found))
    return worlds[0], worlds[1]


def _power(score: Score, thresholds: Floats, *, draws: int, level: float) -> float:
    """Return how often noise of half the size would be found, with these worlds and draws."""
    claim = score.claim.blow_up()
    if score.claim.mechanism == "laplace":
        out, in_ = simulated(score, noise=0.5, seed=2)
        cells = sample_cells(thresholds, out), sample_cells(thresholds, in_)
    else:
        cells = (
            normal_cells(thresholds, mean=0.0, std=0.5),
            normal_cells(thresholds, mean=score.shift, std=0.5),
        )
    return detection_rate(*cells, claim, draws=draws, error=level)


def _result(
    subject: Probed,
    score: Score,
    without: Floats,
    with_: Floats,
    thresholds: Floats,
    *,
    wanted: int,
    level: float,
) -> ProbeResult:
    claim = score.claim
    worlds = count_worlds(without, with_, thresholds)
    draws = len(without)
    delta = subject.plan.delta or 1e-5
    claimed = claim.curve().epsilon(delta)
    epsilon = largest_epsilon(worlds, delta=delta, error=level)
    ceiling = epsilon_ceiling(draws, thresholds=len(thresholds), delta=delta, error=level)
    fewer = f"noise: {draws:,} draws a world instead of {wanted:,}, for time"
    return ProbeResult(
        probe="noise",
        claimed=f"noise multiplier {claim.multiplier:.4g}: epsilon {claimed:.3g} a full release",
        measured=_measured(score, without, with_, epsilon=epsilon),
        p_value=p_value(worlds, claim.blow_up()),
        level=level,
        fault="noise 2x too small",
        power=_power(score, thresholds, draws=draws, level=level),
        ratio=epsilon / claimed if claimed else None,
        ceiling=ceiling / claimed if claimed else None,
        numbers={
            "noise_multiplier": claim.multiplier,
            "draws_a_world": draws,
            "thresholds": thresholds.tolist(),
            **shown_counts(worlds),
            "delta": delta,
            "epsilon_claimed": claimed,
            "epsilon_at_least": epsilon,
            "epsilon_ceiling": ceiling,
            "shift_without_noise": score.shift,
            "shift_claimed": claim.shift,
        },
        notes=(fewer,) if draws < wanted else (),
    )


def _measured(score: Score, without: Floats, with_: Floats, *, epsilon: float) -> str:
    bound = f"epsilon >= {epsilon:.2g}"
    if score.claim.mechanism == "laplace":
        return f"{bound}, {len(without):,} draws a world"
    moved = float(with_.mean() - without.mean())
    return (
        f"{bound}; std {without.std():.2f} of 1, shift {moved:.2f} of {score.claim.shift:.2f}, "
        f"{len(without):,} draws a world"
    )
