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

    classes: tuple[Text, ...] | None = Field(
        None,
        min_length=2,
        description="The public list of classes, in the order of their numbers; "
        "left out for a regression.",
    )
    mapping: dict[str, Text] = Field(
        {},
        description="The class of a text that isn't a class itself, such as {flu: ill, cold: ill}: "
        "for merging classes.",
    )
    other: Text | None = Field(
        None,
        description="The class of every text that is neither a class nor mapped; unless given, "
        "such a text is an error. A missing value always is.",
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
        check_distinct(self.classes or ())
        check_distinct([*(self.classes or ()), *self.mapping])
        for text, name in self.mapping.items():
            if name not in (self.classes or ()):
                raise ValueError(
                    f"expected mapping to lead to one of the classes, got {name!r} for {text!r}."
                )
        if self.other is not None and self.other not in (self.classes or ()):
            raise ValueError(f"expected other to be one of the classes, got {self.other!r}.")
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of each class, in the order of their numbers; empty for a regression."""
        return self.classes or ()

    @property
    def numbered(self) -> dict[str, int]:
        """Every text that means a class, with the number of the class."""
        numbers = {text: number for number, text in enumerate(self.class_names)}
        for text, name in self.mapping.items():
            numbers[text] = self.class_names.index(name)
        return numbers

    # [rows, 1] of int64 or float32
    def encode(self, values: pyarrow.Array, *, missing: Sequence[str]) -> numpy.ndarray:
        """Turn classes into their numbers, or values into scaled numbers."""
        import numpy

        if self.classes is None:
            return scaled(numbers_of(values, missing), self.mean, self.std)
        known = self.numbered
        # The last number is that of a text which isn't known: its place is -1.
        other = -1 if self.other is None else self.class_names.index(self.other)
        numbers = numpy.array([*known.values(), other], dtype=numpy.int64)
        places = places_in(self._stripped(values), list(known))
        gone = (places < 0) & is_missing(values, missing)
        return numpy.where(gone, -1, numbers[places])[:, None]

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
            way_out = "Drop such records." if gone else "List all of them, or drop such records."
            return f"{expected}, got {got}. {way_out}"
        if gone:
            return "expected a number, got a missing value. Drop the record."
        return number_fault(value)
