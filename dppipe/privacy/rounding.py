"""Rounding that never flatters: what is printed is at least what was computed."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

UNIT = 2.0**-53
"""How far off the nearest float64 may be, relative to a number."""


def round_up(value: float, digits: int) -> float:
    """Round up to a number of significant digits.

    A number that has no more digits stays as it is.
    """
    if value == 0 or not math.isfinite(value):
        return value
    nearest = float(f"{value:.{digits}g}")
    if nearest >= value:
        return nearest
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value)))


def round_down(value: float, digits: int) -> float:
    """Round down to a number of significant digits: what is said to fit must fit."""
    if value == 0 or not math.isfinite(value):
        return value
    nearest = float(f"{value:.{digits}g}")
    if nearest <= value:
        return nearest
    return float(Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(Decimal(value)))


def exact(value: float) -> Decimal:
    """Return the decimal number that a float stands for: 1/10 for 0.1, as it was written."""
    return Decimal(repr(float(value)))


def fraction_up(value: Fraction, digits: int) -> float:
    """Round a fraction up to a number of significant digits, exactly."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return float(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def decimal_up(value: Decimal, digits: int) -> float:
    """Round a decimal number up to a number of significant digits."""
    return float(Context(prec=digits, rounding=ROUND_CEILING).plus(value))


def decimal_down(value: Decimal, digits: int) -> float:
    """Round a decimal number down to a number of significant digits."""
    return float(Context(prec=digits, rounding=ROUND_FLOOR).plus(value))
