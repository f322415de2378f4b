"""How far a gradient that was computed in float64 may be off: at a run, and before it.

A plan refuses a tolerance that rounding couldn't reach, from public numbers alone. Nothing here
imports torch.
"""

from __future__ import annotations

import math

from dppipe.learners.perturbation.loss_constants import LossConstants

_UNIT = 2.0**-53
CHUNK = 1 << 10
"""How many products `precise_products.py` adds without rounding."""
_OWN = 16.0
"""Units that exponentials, quotients and products of one record's derivative may be off by."""
MOST_RECORDS = 10**7
"""How many records are planned for where their number is secret."""
_FAR = 9.0
"""Standard deviations beyond its mean that a norm of Gaussian noise reaches once in 10^18 runs."""
_FAR_SPHERICAL = 45.0
"""The same of spherical noise, whose norm is a sum of exponential values: in scales."""


def product_round_off(terms: int) -> float:
    """Return how far a precise product of so many terms may be off (`precise_products.py`).

    It is in units of both factors' largest numbers, and twice what the argument there needs.
    """
    chunks = math.ceil(terms / CHUNK)
    return terms * (min(terms, CHUNK) + 3 * chunks) * 2.0**-71


def gradient_round_off(
    constants: LossConstants,
    *,
    records: float,
    rows: int,
    columns: int,
    weights: float,
    pull: float,
) -> float:
    """Return a bound on the error of a gradient's norm.

    A score is off by two units relative to itself, and by `product_round_off(columns)` in units of
    the largest row and weight; there is a score for each output. A derivative moves by at most
    `bend` times that, and by `bend_times_score` times a relative error. Its own arithmetic adds
    `_OWN` units, one for each output whose exponential it adds up, and what `1 + width - score` is
    off by. What is summed is then off by a few units of the sum, and each coordinate by
    `product_round_off(rows)` in units of the largest row and derivative.

    Args:
        constants: The loss and its bounds.
        records: The number of records, or the sum of their weights.
        rows: How many rows are summed: more than `records` where a user's rows share its weight.
        columns: The length of a row.
        weights: The norm of all weights.
        pull: The norm of the regularisation's and the noise's gradient.
    """
    score = constants.max_norm * weights
    felt = constants.bend_times_score
    relative = min(felt, constants.bend * score) * 2 * _UNIT
    absolute = constants.bend * score * math.sqrt(constants.outputs) * product_round_off(columns)
    slope = constants.gradient_bound / constants.max_norm
    units = _OWN + constants.outputs + (felt if math.isfinite(felt) else 0.0)
    each = relative + absolute + units * _UNIT * max(slope, 1.0)
    summed = slope * math.sqrt(columns * constants.outputs) * product_round_off(rows)
    whole = records * constants.gradient_bound + pull
    return constants.max_norm * (records * each + summed) + 8 * _UNIT * whole


def noise_reach(mechanism: str, size: int, scale: float) -> float:
    """Return what the norm of a noise vector stays below, but for next to no probability."""
    if mechanism == "pure":
        return scale * (size + _FAR * math.sqrt(size) + _FAR_SPHERICAL)
    return scale * (math.sqrt(size) + _FAR)


def reachable_tolerance(
    constants: LossConstants,
    *,
    records: int | None,
    by_users: bool,
    columns: int,
    regularization: float,
    noise: float,
) -> float:
    """Return the least tolerance that a plan accepts: more than rounding may hide.

    It is four times what a gradient may be off by, and twice what it moves by if the weights at the
    minimum are rounded to float64.

    Args:
        constants: The loss and its bounds.
        records: How many there are; `MOST_RECORDS` are planned for where that is secret.
        by_users: Whether `records` counts users, who have a secret number of rows.
        columns: The length of a row.
        regularization: The lambda of the objective.
        noise: What the norm of the noise stays below; 0 without noise.
    """
    count = MOST_RECORDS if records is None else records
    largest = (count * constants.gradient_bound + noise) / regularization
    if math.isfinite(constants.at_zero):
        # At the minimum the objective is at most its value at zero weights.
        falls = 2 * count * constants.at_zero / regularization
        largest = min(largest, 2 * noise / regularization + math.sqrt(falls))
    off = gradient_round_off(
        constants,
        records=count,
        rows=max(count, MOST_RECORDS) if by_users else count,
        columns=columns,
        weights=2 * largest,
        pull=count * constants.gradient_bound + 2 * noise,
    )
    steepest = regularization + count * constants.curvature
    return 4 * off + 2 * steepest * largest * _UNIT
