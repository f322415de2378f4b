"""What every declared column has.

Guarantees:
- `encode` looks at one row at a time, so no record changes how another one is encoded.
- A value that can't be encoded stops nothing: it becomes NaN, or class -1, and `fault` returns what
  is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from dppipe.component import Field, Options
from dppipe.data.tables.values import is_missing

if TYPE_CHECKING:
    import numpy
    import pyarrow
    from numpy.typing import NDArray


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


Text = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)]
"""A value of a column as the file writes it; an integer means its digits."""


class Column(Options):
    """A declared column."""

    column: str = Field(description="The column's name.")

    @property
    def width(self) -> int:
        """How many inputs the column becomes."""
        return 1

    # -> [rows, width] of float32, or [rows, 1] of int64
    def encode(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn values into numbers."""
        raise NotImplementedError

    def fault(self, value: pyarrow.Array, *, missing: Sequence[str]) -> str:  # [1]
        """Return what is wrong with a value that can't be encoded, without showing it."""
        if is_missing(value, missing)[0]:
            return self.missing_fault
        return self.other_fault(value)

    @property
    def missing_fault(self) -> str:
        """What is wrong with a missing value."""
        way_out = "Give `fill` for it, or drop the record."
        return f"expected {self.expected}, got a missing value. {way_out}"

    @property
    def expected(self) -> str:
        """What a value should be."""
        return "a number"

    def other_fault(self, value: pyarrow.Array) -> str:  # [1]
        """Return what is wrong with a value that isn't missing."""
        return (
            f"expected {self.expected}, got another value. "
            "If it stands for a missing one, list it in data.missing."
        )


class Filled(Column):
    """A column of which a missing value can be replaced by a constant, and marked."""

    fill: float | None = Field(
        None,
        description="A public constant that replaces a missing value; without it one is an error.",
    )
    indicator: bool = Field(
        False,
        description="Whether a second input says that the value was missing; it needs `fill`.",
    )

    def model_post_init(self, context: Any) -> None:
        """Refuse an indicator of what is an error."""
        if self.indicator and self.fill is None:
            raise ValueError("expected fill beside indicator, got none. State the constant.")

    # -> [rows, 1] of float32
    def marks(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Return 1 for each missing value, 0 for others."""
        import numpy

        return is_missing(values, missing).astype(numpy.float32)[:, None]


def usable_rows(encoded: numpy.ndarray) -> NDArray[numpy.bool_]:  # [rows, inputs] -> [rows]
    """Return which rows `encode` could turn into numbers."""
    import numpy

    fits = encoded >= 0 if encoded.dtype.kind == "i" else numpy.isfinite(encoded)
    return numpy.asarray(fits.all(axis=1), dtype=bool)


def check_distinct(values: Sequence[str]) -> None:
    """Refuse a list that names a value twice."""
    if set(values) == {"TODO"}:  # as `dppipe init --from` writes it; beside others it is a value
        raise ValueError("expected values of the column, got TODO. Replace it by the public list.")
    if len({value.strip() for value in values}) < len(values):
        raise ValueError("expected distinct values, got one of them twice.")


# -> [rows] of int64
def places_in(values: pyarrow.Array, known: Sequence[str]) -> NDArray[numpy.int64]:
    """Return each value's place in a list, by its text; -1 for one that isn't in it."""
    import numpy
    import pyarrow
    from pyarrow import compute

    from dppipe.data.tables.values import texts_of

    listed = pyarrow.array([text.strip() for text in known], pyarrow.string())
    found = compute.index_in(texts_of(values), value_set=listed)
    return numpy.asarray(compute.fill_null(found, -1).to_numpy(zero_copy_only=False), numpy.int64)
