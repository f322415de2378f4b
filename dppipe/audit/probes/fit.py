"""The probe "fit": is the noise what its name says?

It looks at every coordinate of a few releases without the canary. Noise that is missing on one
tensor, reused between steps or halves, or added once for each piece of a batch shows here. The
probe tests the implementation against its model; it bounds no epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from dppipe.audit.probes.verdict import LEAST_P, SHARES, ProbeResult

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.audit.probes.noise import Progress
    from dppipe.audit.probes.probed import Probed
    from dppipe.audit.probes.step_claim import StepClaim

DRAWS = 20
_OTHERS = 20
"""Placeholders: a step has several physical batches, so noise that is added for each shows."""
_MOST_VALUES = 100_000
"""How many values the Kolmogorov-Smirnov test looks at."""


@dataclass
class FitTests:
    """Collects the tests; each gets the same part of the probe's level."""

    claim: StepClaim
    p_values: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    """The noise of each piece that was measured, over the one that is claimed."""

    def size(self, name: str, total: float, values: int) -> None:
        """Compare the size of so many values of noise with the claim, on both sides."""
        degrees = self.claim.degrees(values)
        below = float(special.chdtr(degrees, total))
        above = float(special.chdtrc(degrees, total))
        self.p_values[f"size of {name}"] = min(1.0, 2 * min(below, above))
        self.ratios[name] = self.claim.noise_ratio(total, values)

    def product(self, name: str, total: float, values: int) -> None:
        """Compare a sum of products of independent values with N(0, values), on both sides."""
        variance = 4.0 if self.claim.mechanism == "laplace" else 1.0
        score = abs(total) / math.sqrt(variance * values)
        self.p_values[name] = 2 * float(special.ndtr(-score))

    @property
    def p_value(self) -> float:
        """The smallest p-value times their number; never 0, which a test of noise can't show."""
        return min(1.0, max(min(self.p_values.values()), LEAST_P) * len(self.p_values))


def probe_fit(subject: Probed, counts: list[Tensor], *, progress: Progress) -> ProbeResult:
    """Draw releases without the canary and compare their noise with the claim.

    Args:
        subject: What is audited.
        counts: The noise on an adaptive clipper's counts, of the draws of another probe.
        progress: Is told of draws.
    """
    silent_records, silent = subject.full(others=_OTHERS, steps=1, silent=True)
    silent_records.hold(None)
    records, step = subject.full(others=_OTHERS, steps=DRAWS)
    records.hold(None)
    claim = step.claim()
    centre = claim.scaled(silent.draw())[: claim.width]
    tests = FitTests(claim)
    sizes = dict.fromkeys(claim.sizes, 0.0)
    between_draws = 0.0
    between_halves = 0.0
    values: list[Tensor] = []
    before: Tensor | None = None
    for _ in range(DRAWS):
        noise = claim.scaled(step.draw())[: claim.width] - centre
        for name, piece in claim.pieces().items():
            sizes[name] += claim.size_of(noise[piece])
        if before is not None:
            between_draws += float(before @ noise)
        half = len(noise) // 2
        between_halves += float(noise[:half] @ noise[half : 2 * half])
        values.append(noise[: _MOST_VALUES // DRAWS])
        before = noise
        progress(1)
    _add_tests(tests, sizes, between_draws, between_halves)
    drawn = np.concatenate([one.numpy() for one in values])
    tests.p_values["distribution"] = float(stats.kstest(drawn, _distribution(claim)).pvalue)
    if counts:
        every = np.concatenate([one.numpy() for one in counts])
        tests.p_values["size of counts"] = _two_sided_square(every)
        tests.ratios["counts"] = float(np.sqrt(np.mean(every**2)))
    return _result(tests)


def _two_sided_square(values: np.ndarray) -> float:
    """Return the p-value of Gaussian values in units of their noise."""
    total = float((values**2).sum())
    tails = special.chdtr(len(values), total), special.chdtrc(len(values), total)
    return min(1.0, 2 * float(min(tails)))


def _add_tests(
    tests: FitTests, sizes: dict[str, float], between_draws: float, between_halves: float
) -> None:
    claim = tests.claim
    tests.size("all", sum(sizes.values()), DRAWS * claim.width)
    for name, total in sizes.items():
        tests.size(name, total, DRAWS * claim.sizes[name])
    tests.product("products of neighbouring draws", between_draws, (DRAWS - 1) * claim.width)
    half = claim.width // 2
    if half:
        tests.product("products of both halves", between_halves, DRAWS * half)


def _distribution(claim: StepClaim) -> str:
    return "laplace" if claim.mechanism == "laplace" else "norm"


def _result(tests: FitTests) -> ProbeResult:
    claim = tests.claim
    level = SHARES["fit"]
    worst = min(tests.p_values, key=lambda name: tests.p_values[name])
    farthest = max(tests.ratios, key=lambda name: abs(math.log(max(tests.ratios[name], 1e-300))))
    smallest = min(claim.sizes, key=lambda name: claim.sizes[name])
    kind = "Laplace" if claim.mechanism == "laplace" else "Gaussian"
    return ProbeResult(
        probe="fit",
        claimed=f"independent {kind} noise of {claim.std:.4g} on all {claim.width:,} values",
        measured=f"{tests.ratios['all']:.4f} of it; {tests.ratios[farthest]:.3f} on {farthest}; "
        f"worst test: {worst}",
        p_value=tests.p_value,
        level=level,
        fault=f"noise 2x too small on {smallest} alone",
        power=_power(claim, claim.sizes[smallest], tests=len(tests.p_values), level=level),
        ratio=1 / max(tests.ratios["all"], 1e-300),
        numbers={
            "draws": DRAWS,
            "values": claim.width,
            "std": claim.std,
            "p_values": tests.p_values,
            "noise_over_claim": tests.ratios,
        },
    )


def _power(claim: StepClaim, values: int, *, tests: int, level: float) -> float:
    """Return the chance that noise of half the size on one tensor is found: exact."""
    degrees = claim.degrees(DRAWS * values)
    low = float(special.chdtri(degrees, 1 - level / tests / 2))
    shrunk = 2.0 if claim.mechanism == "laplace" else 4.0
    return float(special.chdtr(degrees, shrunk * low))
