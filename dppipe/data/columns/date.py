"""Columns of dates."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.columns.base import Filled
from dppipe.data.tables.values import is_missing, texts_of

if TYPE_CHECKING:
    import numpy
    import pyarrow
    from numpy.typing import NDArray

_SECONDS_A_DAY = 86_400


class Date(Filled):
    """A column of dates: -1 at the earliest date, 1 at the latest; one outside counts as these."""

    earliest: datetime.date = Field(description="A public limit: the date that becomes -1.")
    latest: datetime.date = Field(description="A public limit: the date that becomes 1.")
    format: str = Field(
        "%Y-%m-%d", description="How texts write a date, in the letters of strptime."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.earliest >= self.latest:
            raise ValueError(f"expected earliest < latest, got {self.earliest} and {self.latest}.")
        return self

    # [rows, 1] of float32
    def encode(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn dates into numbers from -1 to 1."""
        import numpy

        first = _day(self.earliest)
        last = _day(self.latest)
        days = numpy.clip(_days(values, self.format), first, last)
        numbers = (2 * days - first - last) / (last - first)
        if self.fill is not None:
            numbers = numpy.where(is_missing(values, missing), self.fill, numbers)
        return numbers.astype(numpy.float32)[:, None]

    @property
    def expected(self) -> str:
        """What a value should be."""
        return f"a date as {self.format}"


def _day(date: datetime.date) -> int:
    return date.toordinal() - datetime.date(1970, 1, 1).toordinal()


def _days(values: pyarrow.Array, written: str) -> NDArray[numpy.float64]:  # -> [rows]
    """Return days since 1970; NaN for a value that is no date."""
    import numpy
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_temporal(values.type):
        moments = compute.cast(values, pyarrow.timestamp("s"), safe=False)
    else:
        moments = compute.strptime(texts_of(values), format=written, unit="s", error_is_null=True)
    seconds = compute.cast(compute.cast(moments, pyarrow.int64()), pyarrow.float64())
    filled = compute.fill_null(seconds, float("nan")).to_numpy(zero_copy_only=False)
    return numpy.asarray(filled / _SECONDS_A_DAY, dtype=numpy.float64)
