"""What the best of K private runs costs, by the privacy curve of one run.

    delta_best(e) <= E[K] delta(e - c),   c = max over x of ln( phi'(B(x)) / phi'(x) )

Here phi is the generating function of K, and B the blow-up of one run's curve
(`tradeoff/blow_up.py`).

Guarantee: this holds if K is drawn in secret and independently of the records, the K runs are
independent and alike, and nothing but the run with the best score is released. Scores may depend on
a run's output in any way; equal ones are settled by a coin. `PROOF.md` has the argument, lemma 3,
and lemma 4 for round-off. It was proven for dppipe; Koskela, Redberg and Wang (2024) bound c by one
point of the curve, which is never less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dppipe.privacy.selection.chords import Chords, read_chords
from dppipe.privacy.tradeoff.blow_up import blow_up_through

if TYPE_CHECKING:
    from dppipe.privacy.accountants.base import PrivacyCurve
    from dppipe.privacy.selection.repetitions import Repetitions

_UPWARD = 1 + 2.0**-48


@dataclass(frozen=True)
class SelectionCurve:
    """The privacy curve of the best of K runs.

    Example:
        >>> from dppipe.privacy.gaussian import GaussianCurve
        >>> from dppipe.privacy.selection.costs import SelectionCurve
        >>> from dppipe.privacy.selection.repetitions import Repetitions
        >>> best = SelectionCurve(GaussianCurve(mu=1.0), Repetitions(mean=10.0, shape=0.0))
        >>> 6.21 < best.epsilon(1e-5) < 6.22
        True
    """

    run: PrivacyCurve
    repetitions: Repetitions

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta: eps_run(delta / E[K]) + c, or the chords' if less."""
        share = delta / self.repetitions.expected / _UPWARD
        shifted = (self.run.epsilon(share) + self.shift) * _UPWARD
        return min(shifted, self.chords.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon: E[K] delta_run(epsilon - c), or the chords' if less."""
        found = self.chords.at(epsilon)
        before = epsilon * (2 - _UPWARD) - self.shift
        if before < 0:
            return found
        return min(found, self.repetitions.expected * self.run.delta(before) * _UPWARD)

    def parameters(self) -> dict[str, Any]:
        """Return how often the run is repeated, and what choosing adds to epsilon."""
        return {
            "expected_runs": self.repetitions.expected,
            "selection_shift": self.shift,
            "one_run": self.run.parameters(),
        }

    @cached_property
    def run_chords(self) -> Chords:
        """The profile of one run, through points of its curve."""
        return read_chords(self.run)

    @cached_property
    def shift(self) -> float:
        """c, which choosing adds to epsilon."""
        return selection_shift(self.run_chords, self.repetitions)

    @cached_property
    def chords(self) -> Chords:
        """The profile of the selection, from the lower convex hull of its points."""
        return selection_chords(self.run_chords, self.repetitions, shift=self.shift)


def selection_shift(run: Chords, repetitions: Repetitions) -> float:
    """Return c for one run's profile, rounded up.

    On each straight piece of B the fraction is monotone, so that its ends suffice. The piece's own
    line is taken at both of them: where round-off has moved an end, the line still bounds B.
    """
    if repetitions.gamma == 1 and not repetitions.is_poisson:
        return 0.0
    pieces = blow_up_through(run.epsilons, run.deltas).pieces()
    starts = repetitions.log_growth(pieces.starts, pieces.at(pieces.starts))
    stops = repetitions.log_growth(pieces.stops, pieces.at(pieces.stops))
    largest = float(np.max(np.maximum(starts, stops)))
    return max(0.0, largest) * _UPWARD if math.isfinite(largest) else math.inf


def selection_chords(run: Chords, repetitions: Repetitions, *, shift: float) -> Chords:
    """Return the profile of the selection: the hull of min(1, E[K] delta(e)) at e + c."""
    if not math.isfinite(shift):
        return Chords(np.array([0.0]), np.array([1.0]))
    epsilons = (run.epsilons + shift) * _UPWARD
    deltas = np.minimum(run.deltas * (repetitions.expected * _UPWARD), 1.0)
    return Chords(epsilons, deltas).hull()
