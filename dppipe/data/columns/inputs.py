"""All columns of a table together: which inputs they become, and the numbers of some rows.

The inputs of a record stand in this order: numbers, words, ordered words, truth values, dates, then
the marks of missing values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dppipe.data.columns.base import Column, Filled, usable_rows
from dppipe.data.columns.categorical import Categorical
from dppipe.data.columns.target import Target

if TYPE_CHECKING:
    import numpy
    import pyarrow
    from numpy.typing import NDArray

    from dppipe.data.tables.blocks import Block

Categories = Literal["one_hot", "codes"]
"""How words become inputs: one 0/1 input for each category, or one input with its number."""


@dataclass(frozen=True)
class Fault:
    """A value that can't be encoded."""

    row: int
    """The row in its block."""
    column: str
    message: str


@dataclass(frozen=True)
class Encoded:
    """Some rows as numbers; a row that can't be used is zeros."""

    inputs: numpy.ndarray  # [rows, width] of float32
    targets: numpy.ndarray | None  # [rows, 1] of int64 or float32
    valid: NDArray[numpy.bool_]  # [rows]
    fault: Fault | None
    """The first value that can't be encoded, in the order of the columns."""


@dataclass(frozen=True)
class TableInputs:
    """The columns that a model learns from, and what becomes of a missing value."""

    columns: tuple[Column, ...]
    target: Target
    missing: tuple[str, ...]
    categories: Categories = "one_hot"

    @property
    def width(self) -> int:
        """The number of inputs of a record."""
        return sum(map(self.width_of, self.columns)) + len(self.marked)

    @property
    def marked(self) -> list[Filled]:
        """The columns whose missing values are marked by an input of their own."""
        marked = []
        for column in self.columns:
            if isinstance(column, Filled) and column.indicator:
                marked.append(column)
        return marked

    def width_of(self, column: Column) -> int:
        """Return how many inputs a column becomes, without its mark."""
        if self.categories == "codes" and isinstance(column, Categorical):
            return 1
        return column.width

    @property
    def category_counts(self) -> dict[int, int]:
        """The number of categories of each input that holds codes, by the input's place.

        0 stands for none, so a code is at most that number.
        """
        counts = {}
        place = 0
        for column in self.columns:
            if self.categories == "codes" and isinstance(column, Categorical):
                counts[place] = column.width
            place += self.width_of(column)
        return counts

    def encode(self, block: Block, *, with_target: bool = True) -> Encoded:
        """Return the numbers of some rows; the target is the array after those of the columns."""
        import numpy

        inputs = numpy.empty((len(block), self.width), dtype=numpy.float32)
        valid = numpy.ones(len(block), dtype=bool)
        valid[list(block.broken)] = False
        fault = None
        place = 0
        for column, values in zip(self.columns, block.values, strict=False):
            width = self.width_of(column)
            inputs[:, place : place + width] = self._numbers(column, values)
            usable = usable_rows(inputs[:, place : place + width])
            fault = fault or self._fault(column, values, usable | ~valid)
            valid &= usable
            place += width
        for column in self.marked:
            values = block.values[self.columns.index(column)]
            inputs[:, place : place + 1] = column.marks(values, missing=self.missing)
            place += 1
        targets = None
        if with_target:
            values = block.values[len(self.columns)]
            targets = self.target.encode(values, missing=self.missing)
            usable = usable_rows(targets)
            fault = fault or self._fault(self.target, values, usable | ~valid)
            valid &= usable
            targets[~valid] = 0
        inputs[~valid] = 0
        return Encoded(inputs, targets, valid, fault)

    def _numbers(self, column: Column, values: pyarrow.Array) -> numpy.ndarray:
        import numpy

        if self.categories == "codes" and isinstance(column, Categorical):
            codes = column.codes(values, missing=self.missing).astype(numpy.float32) + 1
            return numpy.where(codes < 0, numpy.nan, codes)[:, None]
        return column.encode(values, missing=self.missing)

    def _fault(
        self, column: Column, values: pyarrow.Array, usable: NDArray[numpy.bool_]
    ) -> Fault | None:
        if usable.all():
            return None
        row = int(usable.argmin())
        message = column.fault(values[row : row + 1], missing=self.missing)
        return Fault(row, column.column, message)


def names_of(columns: Sequence[Column]) -> list[str]:
    """Return the names of columns in the file."""
    return [column.column for column in columns]
