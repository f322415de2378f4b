"""Columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.columns.base import Filled
from dppipe.data.reading.scaling import Number
from dppipe.data.reading.tensors import to_float32
from dppipe.data.tables.values import is_missing, numbers_of

if TYPE_CHECKING:
    import numpy
    import pyarrow


class Numeric(Filled):
    """A column of numbers: a value becomes `(value - mean) / std`.

    With `lower` and `upper` a value is held to these limits first. Where no mean and std are
    stated, the limits become -1 and 1.
    """

    # None, not 0 and 1: a spec that is written with its defaults has to read back to the same.
    mean: Number | None = Field(
        None, description="A public constant that is subtracted; unless stated, 0 or by the limits."
    )
    std: Number | None = Field(
        None,
        gt=0,
        description="A public constant that is divided by; unless stated, 1 or by the limits.",
    )
    lower: Number | None = Field(
        None, description="A public limit: a smaller value counts as this one."
    )
    upper: Number | None = Field(
        None, description="A public limit: a larger value counts as this one."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.lower is None) != (self.upper is None):
            raise ValueError("expected lower and upper, got one of them. State both.")
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ValueError(f"expected lower < upper, got {self.lower:g} and {self.upper:g}.")
        return self

    @property
    def clamps(self) -> bool:
        """Whether values are held to public limits."""
        return self.lower is not None

    @property
    def centre_and_scale(self) -> tuple[float, float]:
        """What is subtracted from a value, and what it is then divided by."""
        stated = self.mean is not None or self.std is not None
        if self.lower is None or self.upper is None or stated:
            return (0.0 if self.mean is None else self.mean, 1.0 if self.std is None else self.std)
        return (self.lower + self.upper) / 2, (self.upper - self.lower) / 2

    # [rows, 1] of float32
    def encode(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn values into scaled numbers."""
        import numpy

        numbers = numbers_of(values, missing)
        if self.fill is not None:
            numbers = numpy.where(is_missing(values, missing), self.fill, numbers)
        # An infinity is no number that can be held to a limit.
        numbers = numpy.where(numpy.isfinite(numbers), numbers, numpy.nan)
        return scaled(numpy.clip(numbers, self.lower, self.upper), *self.centre_and_scale)

    def other_fault(self, value: pyarrow.Array) -> str:
        """Return what is wrong with a value that isn't missing."""
        return number_fault(value)


def scaled(numbers: numpy.ndarray, mean: float, std: float) -> numpy.ndarray:  # [n] -> [n, 1]
    """Return numbers less a mean and over a deviation, as 32-bit floats."""
    import numpy

    with numpy.errstate(over="ignore", invalid="ignore"):
        return to_float32((numbers - mean) / std)[:, None]


def number_fault(value: pyarrow.Array) -> str:  # [1]
    """Return what is wrong with a value that isn't a number."""
    try:
        float(str(value[0]))
    except ValueError:
        return (
            "expected a number, got another text. "
            "If it stands for a missing value, list it in data.missing."
        )
    return "expected a finite number, got NaN or one that is too large."
