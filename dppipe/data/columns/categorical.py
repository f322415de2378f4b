"""Columns of words: a public list of values, or a stated number of buckets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.columns.base import Column, Text, check_distinct, places_in
from dppipe.data.tables.values import is_missing, texts_of

if TYPE_CHECKING:
    import numpy
    import pyarrow
    from numpy.typing import NDArray


class Categorical(Column):
    """A column of words: one 0/1 input for each stated value, or for each bucket.

    A text's bucket is a public hash of the text alone. Two texts may share a bucket.
    """

    values: tuple[Text, ...] | None = Field(
        None, min_length=1, description="The public list of values."
    )
    buckets: int | None = Field(
        None,
        ge=2,
        le=1_000_000,
        description="Hash texts into so many buckets, where no public list of values is known.",
    )
    other: Literal["zeros", "category", "refuse"] = Field(
        "zeros",
        description="What a text outside the list becomes: zeros, a category of its own, or an "
        "error.",
    )
    absent: Literal["zeros", "category", "refuse"] = Field(
        "zeros",
        description="What a missing value becomes: zeros, a category of its own, or an error.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.values is None) == (self.buckets is None):
            raise ValueError("expected either values or buckets. State one of them.")
        if self.buckets is not None and self.other != "zeros":
            raise ValueError("expected other beside values only: every text has a bucket.")
        check_distinct(self.values or ())
        return self

    @property
    def width(self) -> int:
        """How many inputs the column becomes."""
        known = self.buckets or len(self.values or ())
        return known + (self.other == "category") + (self.absent == "category")

    # [rows, width] of float32
    def encode(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn words into 0/1 inputs."""
        import numpy

        codes = self.codes(values, missing=missing)
        is_category: numpy.ndarray = codes[:, None] == numpy.arange(self.width)
        inputs = is_category.astype(numpy.float32)
        inputs[codes == _BAD] = numpy.nan
        return inputs

    # [rows] of int64
    def codes(self, values: pyarrow.Array, *, missing: Sequence[str]) -> NDArray[numpy.int64]:
        """Return the number of each value's category: -1 for none, -2 for an error."""
        import numpy

        gone = is_missing(values, missing)
        if self.values is not None:
            codes = places_in(values, self.values)
            # A listed value is what the list says, even if it also means a missing one.
            gone &= codes < 0
            unknown = (codes < 0) & ~gone
            codes = numpy.where(unknown, self._code_of(self.other, place=len(self.values)), codes)
        else:
            codes = _buckets(values, self.buckets or 1)
        last = self.width - 1
        return numpy.where(gone, self._code_of(self.absent, place=last), codes)

    def _code_of(self, rule: str, *, place: int) -> int:
        return {"zeros": -1, "category": place, "refuse": _BAD}[rule]

    @property
    def expected(self) -> str:
        """What a value should be."""
        return f"one of the {len(self.values or ())} listed values"

    @property
    def missing_fault(self) -> str:
        """What is wrong with a missing value."""
        return "expected a value, got a missing one. Set `absent`, or drop the record."


_BAD = -2
"""The code of a value that is an error."""


def _buckets(values: pyarrow.Array, buckets: int) -> NDArray[numpy.int64]:  # -> [rows]
    """Return the bucket of each text; each distinct text of a block is hashed once."""
    import numpy

    encoded = texts_of(values).fill_null("").dictionary_encode()
    places = [_bucket(text, buckets) for text in encoded.dictionary.to_pylist()]
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    found: NDArray[numpy.int64] = numpy.array(places, dtype=numpy.int64)[indices]
    return found


def _bucket(text: str, buckets: int) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % buckets
