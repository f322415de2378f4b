"""What a column of a table can be, and how its texts become numbers: by stated constants only.

Guarantees:
- `encode` looks at one row at a time, so no record changes how another one is encoded.
- A text that can't be encoded stops nothing: it becomes NaN, or class -1, and `fault` returns what
  is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, model_validator

from dppipe.component import Field, Options
from dppipe.data.reading.scaling import Number
from dppipe.data.reading.tensors import to_float32

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from dppipe.data.reading.tables import Cells


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


Text = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)]
"""A value of a column as the file writes it; an integer means its digits."""


class Column(Options):
    """A declared column."""

    column: str = Field(description="The column's name.")

    def encode(self, cells: Cells, *, missing: Sequence[str]) -> numpy.ndarray:  # -> [rows, inputs]
        """Turn texts into numbers."""
        raise NotImplementedError

    def fault(self, text: str, *, missing: Sequence[str]) -> str:
        """Return what is wrong with a text that can't be encoded, without its value."""
        if text in _absent(missing):
            return "expected a number, got a missing value. Give `fill` for it, or drop the record."
        try:
            float(text)
        except ValueError:
            return (
                "expected a number, got another text. "
                "If it stands for a missing value, list it in data.missing."
            )
        return "expected a finite number, got NaN or one that is too large."


class Numeric(Column):
    """A column of numbers: a value becomes `(value - mean) / std`."""

    mean: Number = Field(0.0, description="A public constant that is subtracted.")
    std: Number = Field(1.0, gt=0, description="A public constant that is divided by.")
    fill: float | None = Field(
        None,
        description="A public constant that replaces a missing value; without it one is an error.",
    )

    # [rows, 1] of float32
    def encode(self, cells: Cells, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn texts into scaled numbers."""
        return _scaled(cells, mean=self.mean, std=self.std, fill=self.fill, missing=missing)


class Categorical(Column):
    """A column of words: one input for each stated value, 1 where the record has it."""

    values: tuple[Text, ...] = Field(
        min_length=1, description="The public list of values; any other text gives zeros."
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_distinct(self.values)
        return self

    # [rows, values] of float32
    def encode(self, cells: Cells, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn words into 0/1 inputs."""
        import numpy

        known = _numbered(self.values)
        codes = numpy.array([known.get(text, -1) for text in cells.texts])
        inputs: numpy.ndarray = codes[:, None] == numpy.arange(len(self.values))
        return inputs.astype(numpy.float32)


class Target(Column):
    """The column that is predicted: one of the stated classes, or a number."""

    classes: tuple[Text, ...] | None = Field(
        None,
        min_length=2,
        description="The public list of classes, in the order of their numbers; "
        "left out for a regression.",
    )
    strip: str = Field(
        "",
        description="Characters that are cut off both ends of a class, "
        "such as a trailing full stop.",
    )
    mean: Number = Field(
        0.0, description="A public constant that is subtracted from a number to predict."
    )
    std: Number = Field(
        1.0, gt=0, description="A public constant that a number to predict is divided by."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.classes is not None and (self.mean, self.std) != (0, 1):
            raise ValueError(
                "expected mean and std for a regression only, got them beside classes. "
                "Leave them out."
            )
        _check_distinct(self.classes or ())
        return self

    # [rows, 1] of int64 or float32
    def encode(self, cells: Cells, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn classes into their numbers, or texts into scaled numbers."""
        import numpy

        if self.classes is None:
            return _scaled(cells, mean=self.mean, std=self.std, fill=None, missing=missing)
        known = _numbered(self.classes)
        codes = []
        for text in cells.texts:
            label = text.strip(self.strip) if self.strip else text
            codes.append(known.get(label, -1))
        return numpy.array(codes, dtype=numpy.int64)[:, None]

    def fault(self, text: str, *, missing: Sequence[str]) -> str:
        """Return what is wrong with a text that is no class, or no number."""
        if self.classes is None:
            return super().fault(text, missing=missing)
        got = "a missing value" if text in missing else "another text"
        expected = f"expected one of the {len(self.classes)} classes of data.target.classes"
        return f"{expected}, got {got}. List all of them, or drop such records."


def usable_rows(encoded: numpy.ndarray) -> NDArray[numpy.bool_]:  # [rows, inputs] -> [rows]
    """Return which rows `encode` could turn into numbers."""
    import numpy

    fits = encoded >= 0 if encoded.dtype.kind == "i" else numpy.isfinite(encoded)
    return numpy.asarray(fits.all(axis=1), dtype=bool)


def _numbered(values: Sequence[str]) -> dict[str, int]:
    """Return the number of each value in its list."""
    return {value.strip(): number for number, value in enumerate(values)}


def _check_distinct(values: Sequence[str]) -> None:
    if len({value.strip() for value in values}) < len(values):
        raise ValueError("expected distinct values, got one of them twice.")


def _scaled(
    cells: Cells, *, mean: float, std: float, fill: float | None, missing: Sequence[str]
) -> numpy.ndarray:
    import numpy

    with numpy.errstate(over="ignore", invalid="ignore"):
        scaled = to_float32((_numbers(cells, fill=fill, missing=missing) - mean) / std)
    return scaled[:, None]


def _numbers(cells: Cells, *, fill: float | None, missing: Sequence[str]) -> numpy.ndarray:
    import numpy

    absent = _absent(missing)
    if absent.isdisjoint(cells.texts):
        with suppress(ValueError):
            return numpy.array([float(text) for text in cells.texts])
    return numpy.array([_number(text, fill=fill, absent=absent) for text in cells.texts])


def _absent(missing: Sequence[str]) -> frozenset[str]:
    return frozenset(text.strip() for text in missing)


def _number(text: str, *, fill: float | None, absent: frozenset[str]) -> float:
    """Return the number that a text says; NaN for a text that is no number."""
    if text in absent:
        return math.nan if fill is None else fill
    try:
        return float(text)
    except ValueError:
        return math.nan
