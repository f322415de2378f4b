"""The column that is predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.columns.base import Column, Text, check_distinct, places_in
from dppipe.data.columns.numeric import number_fault, scaled
from dppipe.data.reading.scaling import Number
from dppipe.data.tables.values import is_missing, numbers_of, texts_of

if TYPE_CHECKING:
    import numpy
    import pyarrow


class Target(Column):
    """The column that is predicted: one of the stated classes, or a number."""

    classes: tuple[Text, ...] | dict[str, tuple[Text, ...]] | None = Field(
        None,
        min_length=2,
        description="The public list of classes, in the order of their numbers, or the texts that "
        "each class is made of, such as {ill: [flu, cold], well: [none]}; left out for a "
        "regression.",
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
        texts = [text for text, _ in self.numbered]
        check_distinct(texts)
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of each class, in the order of their numbers; empty for a regression."""
        return tuple(self.classes or ())

    @property
    def numbered(self) -> list[tuple[str, int]]:
        """Every text that names a class, with the number of the class."""
        if isinstance(self.classes, dict):
            found = []
            for number, texts in enumerate(self.classes.values()):
                found += [(text, number) for text in texts]
            return found
        return [(text, number) for number, text in enumerate(self.classes or ())]

    # [rows, 1] of int64 or float32
    def encode(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn classes into their numbers, or values into scaled numbers."""
        import numpy

        if self.classes is None:
            return scaled(numbers_of(values, missing), self.mean, self.std)
        texts = [text for text, _ in self.numbered]
        numbers = numpy.array([number for _, number in self.numbered] + [-1], dtype=numpy.int64)
        return numbers[places_in(self._stripped(values), texts)][:, None]

    def _stripped(self, values: pyarrow.Array) -> Any:
        from pyarrow import compute

        texts = texts_of(values)
        if not self.strip:
            return texts
        return compute.utf8_trim(texts, characters=self.strip)

    def fault(self, value: pyarrow.Array, *, missing: Sequence[str]) -> str:
        """Return what is wrong with a value that is no class, or no number."""
        gone = bool(is_missing(value, missing)[0])
        if self.classes is not None:
            got = "a missing value" if gone else "another text"
            expected = f"expected one of the {len(self.classes)} classes of data.target.classes"
            return f"{expected}, got {got}. List all of them, or drop such records."
        if gone:
            return "expected a number, got a missing value. Drop the record."
        return number_fault(value)
