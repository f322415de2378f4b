"""What a column of a table can be, and how its texts become numbers: by stated constants only.

Guarantee: `encode` looks at one row at a time, so no record changes how another one is encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, model_validator

from dppipe.component import Field, Options
from dppipe.data.reading.scaling import Number
from dppipe.data.reading.tensors import to_float32

if TYPE_CHECKING:
    import numpy

    from dppipe.data.reading.tables import Cells


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


Text = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)]
"""A value of a column as the file writes it; an integer stands for its digits."""


class Column(Options):
    """A declared column."""

    column: str = Field(description="The column's name.")

    def encode(self, cells: Cells, *, missing: Sequence[str]) -> numpy.ndarray:  # -> [rows, inputs]
        """Turn texts into numbers."""
        raise NotImplementedError


class Numeric(Column):
    """A column of numbers: a value becomes `(value - mean) / std`."""

    mean: Number = Field(0.0, description="A public constant that is subtracted.")
    std: Number = Field(1.0, gt=0, description="A public constant that is divided by.")
    fill: float | None = Field(None, description="A public constant that stands for a missing value; without it one is an error.")

    def encode(self, cells: Cells, *, missing: Sequence[str]) -> numpy.ndarray:  # -> [rows, 1] of float32
        """Turn texts into scaled numbers."""
        return _scaled(cells, mean=self.mean, std=self.std, fill=self.fill, missing=missing)


class Categorical(Column):
    """A column of words: one input for each stated value, 1 where the record has it."""

    values: tuple[Text, ...] = Field(min_length=1, description="The public list of values; any other text gives zeros.")

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_distinct(self.values)
        return self

    def encode(self, cells: Cells, *, missing: Sequence[str]) -> numpy.ndarray:  # -> [rows, values] of float32
        """Turn words into 0/1 inputs."""
        import numpy

        known = {value.strip(): number for number, value in enumerate(self.values)}
        codes = numpy.array([known.get(text, -1) for text in cells.texts])
        inputs: numpy.ndarray = codes[:, None] == numpy.arange(len(self.values))
        return inputs.astype(numpy.float32)


class Target(Column):
    """The column that is predicted: one of the stated classes, or a number."""

    classes: tuple[Text, ...] | None = Field(
        None, min_length=2, description="The public list of classes, in the order of their numbers; left out for a regression."
    )
    strip: str = Field("", description="Characters that are cut off both ends of a class, such as a trailing full stop.")
    mean: Number = Field(0.0, description="A public constant that is subtracted from a number to predict.")
    std: Number = Field(1.0, gt=0, description="A public constant that a number to predict is divided by.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.classes is not None and (self.mean, self.std) != (0, 1):
            raise ValueError("expected mean and std for a regression only, got them beside classes. Leave them out.")
        _check_distinct(self.classes or ())
        return self

    def encode(self, cells: Cells, *, missing: Sequence[str]) -> numpy.ndarray:  # -> [rows, 1] of int64 or float32
        """Turn classes into their numbers, or texts into scaled numbers."""
        import numpy

        if self.classes is None:
            return _scaled(cells, mean=self.mean, std=self.std, fill=None, missing=missing)
        known = {name.strip(): number for number, name in enumerate(self.classes)}
        codes = numpy.array([known.get(text.strip(self.strip) if self.strip else text, -1) for text in cells.texts])
        if (wrong := numpy.flatnonzero(codes < 0)).size:
            what = "a missing value" if cells.texts[wrong[0]] in missing else "another text"
            advice = "List all of them, or drop such records."
            raise cells.fault(wrong[0], f"expected one of the {len(known)} classes of data.target.classes, got {what}. {advice}")
        return codes[:, None]


def _check_distinct(values: Sequence[str]) -> None:
    if len({value.strip() for value in values}) < len(values):
        raise ValueError("expected distinct values, got one of them twice.")


def _scaled(cells: Cells, *, mean: float, std: float, fill: float | None, missing: Sequence[str]) -> numpy.ndarray:
    import numpy

    with numpy.errstate(over="ignore"):
        scaled = to_float32((_numbers(cells, fill=fill, missing=missing) - mean) / std)
    if (wrong := numpy.flatnonzero(~numpy.isfinite(scaled))).size:
        raise cells.fault(wrong[0], "expected a finite number, got NaN or one that is too large.")
    return scaled[:, None]


def _numbers(cells: Cells, *, fill: float | None, missing: Sequence[str]) -> numpy.ndarray:
    import numpy

    absent = frozenset(text.strip() for text in missing)
    if absent.isdisjoint(cells.texts):
        with suppress(ValueError):
            return numpy.array([float(text) for text in cells.texts])
    return numpy.array([_number(cells, row, fill=fill, absent=absent) for row in range(len(cells.texts))])


def _number(cells: Cells, row: int, *, fill: float | None, absent: frozenset[str]) -> float:
    if cells.texts[row] in absent:
        if fill is None:
            raise cells.fault(row, "expected a number, got a missing value. Give `fill` for it, or drop the record.")
        return fill
    try:
        return float(cells.texts[row])
    except ValueError:
        advice = "If it stands for a missing value, list it in data.missing."
        raise cells.fault(row, f"expected a number, got another text. {advice}") from None
