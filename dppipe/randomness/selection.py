"""Private selection: one of several candidates is chosen, by the largest of their noisy scores.

The stream decides which mechanism that is. With Gumbel noise it is the exponential mechanism; with
exponential noise it is permute-and-flip, whose expected score is never lower. Nothing but the index
of the chosen candidate leaves `select`. `SELECTION.md` has the lemmas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.exponential import ExponentialStream
from dppipe.randomness.gumbel import GumbelStream

ROUNDING = 2.0**-40
"""The part of epsilon that is kept back for what rounding can add to the privacy loss."""
LEAST_EPSILON = 2.0**-30
"""The smallest epsilon of a selection: far above what is kept back."""
LEAST_SCALE = 2.0**-1000
"""The smallest scale of the noise: divisions by it keep all their digits."""
LARGEST_SCALE = 2.0**1000
"""The largest scale of the noise."""


def select(
    scores: Sequence[float] | NDArray[numpy.float64],  # [candidates]
    *,
    sensitivity: float,
    epsilon: float,
    stream: GumbelStream | ExponentialStream,
    monotone: bool = False,
) -> int:
    """Return the index of a candidate that is chosen privately, preferring high scores.

    Guarantee: if neighbours differ by at most `sensitivity` in each of m scores, the choice is
    epsilon-differentially private, up to m (1 + exp(epsilon)) 2^-65 in probability. What rounding
    adds is paid for (`SELECTION.md`).

    - With a `GumbelStream`, Pr[j] is proportional to `exp(epsilon scores[j] / (2 sensitivity))`:
      the exponential mechanism, which is epsilon-private by McSherry and Talwar's theorem (2007).
    - With an `ExponentialStream` it is permute-and-flip (McKenna and Sheldon 2020), which is noisy
      max with exponential noise (Ding et al. 2021). Pr[j] isn't the same, and epsilon is.
    - Monotone scores, which one unit moves all up or all down, need half the noise: the 2 is left
      out (lemma 6).

    Args:
        scores: Must be exact in float64; each must be finite. Their number must be public.
        sensitivity: The most that one unit can change any score.
        epsilon: What the selection may cost.
        stream: Its draws must be used for nothing else.
        monotone: Whether a unit's presence moves no two scores in opposite directions.
    """
    if not isinstance(stream, GumbelStream | ExponentialStream):
        raise PrivacyRefusal(
            "selection: expected a GumbelStream or an ExponentialStream, got "
            f"{type(stream).__name__}. Other noise has no proof here."
        )
    scale = noise_scale(sensitivity, epsilon=epsilon, monotone=monotone)
    values = _checked_scores(scores)
    with numpy.errstate(over="ignore"):  # what is too far below the best becomes -infinity
        below_best = (values - values.max()) / scale
    return int(numpy.argmax(below_best + stream.draw(len(values))))


def noise_scale(sensitivity: float, *, epsilon: float, monotone: bool = False) -> float:
    """Return the scale of a selection's noise: `spread / (epsilon - ROUNDING)`, rounded up.

    The spread is how far one score can move against another: twice the sensitivity, or once where
    all scores move in one direction.

    Guarantee: `scale (epsilon - ROUNDING) >= spread` in exact arithmetic.
    """
    if not LEAST_EPSILON <= epsilon < math.inf:
        raise ValueError(f"selection: expected a finite epsilon of at least 2^-30, got {epsilon}")
    if not 0 < sensitivity < math.inf:
        raise ValueError(f"selection: expected a finite sensitivity above 0, got {sensitivity}")
    usable = math.nextafter(epsilon - ROUNDING, 0)
    spread = sensitivity if monotone else 2 * sensitivity
    scale = math.nextafter(spread / usable, math.inf)
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:
        raise ValueError(
            "selection: expected 2 sensitivity / epsilon between 2^-1000 and 2^1000, got "
            f"sensitivity {sensitivity} and epsilon {epsilon}"
        )
    return scale


def _checked_scores(scores: Sequence[float] | NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """Return the scores as float64. A message never holds one: they depend on records."""
    values = numpy.asarray(scores, numpy.float64)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"selection: expected a list of one score or more, got the shape {values.shape}"
        )
    if not numpy.isfinite(values).all():
        raise PrivacyRefusal(
            "selection: expected finite scores, got one that is infinite or NaN. "
            "Clip what each record adds to a score, and leave out what isn't finite."
        )
    return values
