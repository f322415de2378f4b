"""Columns of words that have an order, and columns of yes and no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.columns.base import Filled, Text, check_distinct, places_in
from dppipe.data.tables.values import is_missing

if TYPE_CHECKING:
    import numpy
    import pyarrow


class Ordinal(Filled):
    """A column of words in a stated order: one input, 0 for the first value and 1 for the last."""

    values: tuple[Text, ...] = Field(
        min_length=2, description="The public list of values, the lowest first."
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        check_distinct(self.values)
        return self

    # [rows, 1] of float32
    def encode(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn words into numbers from 0 to 1."""
        places = places_in(values, self.values)
        return _filled(self, places / (len(self.values) - 1), places < 0, values, missing)

    @property
    def expected(self) -> str:
        """What a value should be."""
        return f"one of the {len(self.values)} listed values"


class Boolean(Filled):
    """A column of yes and no: 1 and 0."""

    true: tuple[Text, ...] = Field(
        ("true", "yes", "1", "t", "y"),
        min_length=1,
        description="Texts that mean yes, in lower or upper case.",
    )
    false: tuple[Text, ...] = Field(
        ("false", "no", "0", "f", "n"),
        min_length=1,
        description="Texts that mean no, in lower or upper case.",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        check_distinct([text.casefold() for text in (*self.false, *self.true)])
        return self

    # [rows, 1] of float32
    def encode(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn texts or truth values into 1 and 0."""
        from pyarrow import compute

        from dppipe.data.tables.values import texts_of

        lowered = compute.utf8_lower(texts_of(values))
        known = [text.casefold() for text in (*self.false, *self.true)]
        places = places_in(lowered, known)
        is_true = (places >= len(self.false)).astype(float)
        return _filled(self, is_true, places < 0, values, missing)

    @property
    def expected(self) -> str:
        """What a value should be."""
        return "yes or no"


def _filled(
    column: Filled,
    numbers: numpy.ndarray,
    unknown: numpy.ndarray,
    values: pyarrow.Array,
    missing: Sequence[str],
) -> numpy.ndarray:  # -> [rows, 1] of float32
    """Return numbers with missing values filled, and NaN for a value that isn't known."""
    import numpy

    filled = numpy.where(unknown, numpy.nan, numbers)
    if column.fill is not None:
        gone = unknown & is_missing(values, missing)
        filled = numpy.where(gone, column.fill, filled)
    return filled.astype(numpy.float32)[:, None]
