"""The options that every table has: which columns are read, and what they mean.

Guarantee: means, bounds, lists of values and classes are options; nothing is fitted to the records,
except statistics that `normalize` pays for.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.base import Data, Splits, Task
from dppipe.data.columns.base import Column
from dppipe.data.columns.categorical import Categorical
from dppipe.data.columns.date import Date
from dppipe.data.columns.inputs import Categories, TableInputs
from dppipe.data.columns.numeric import Numeric
from dppipe.data.columns.ordinal import Boolean, Ordinal
from dppipe.data.columns.target import Target
from dppipe.data.features.option import Features
from dppipe.data.reading.bad_records import DROP, NOTICE, bad_record
from dppipe.data.reading.limits import Limits
from dppipe.data.reading.private_scaling import PrivateScaling, padded
from dppipe.data.reading.scaling import Constants
from dppipe.data.reading.tensors import class_task, make_classified, make_regression
from dppipe.data.reading.users import with_users
from dppipe.data.reading.validity import with_valid
from dppipe.data.splitting.parts import refuse_test_share
from dppipe.errors import Problem, SpecError, UsageError
from dppipe.input_layout import InputLayout

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import TensorDataset

    from dppipe.data.reading.new_inputs import NewInputs
    from dppipe.data.tables.blocks import TableFile


INPUT_BLOCKS = ("numeric", "categorical", "ordinal", "boolean", "date")
"""The options that declare inputs, in the order of the inputs."""


class TableOptions(Data):
    """A table in a file. Columns that aren't declared are left out."""

    checks_records: ClassVar[bool] = True

    path: Path = Field(description="The file.")
    test_path: Path | None = Field(
        None, description="A second file, whose records are the test records."
    )
    missing: tuple[str, ...] = Field(("", "?"), description="Texts that mean a missing value.")
    numeric: tuple[Numeric, ...] = Field(
        (), description="Columns of numbers; they come first in the input."
    )
    categorical: tuple[Categorical, ...] = Field(
        (), description="Columns of words; each becomes one 0/1 input per value or bucket."
    )
    ordinal: tuple[Ordinal, ...] = Field(
        (), description="Columns of words that have an order; each becomes one input."
    )
    boolean: tuple[Boolean, ...] = Field((), description="Columns of yes and no.")
    date: tuple[Date, ...] = Field((), description="Columns of dates.")
    categories: Categories = Field(
        "one_hot",
        description="How words become inputs: one 0/1 input for each category, or one input with "
        "its number, for models that look embeddings up.",
    )
    target: Target = Field(description="The column that is predicted.")
    normalize: PrivateScaling | None = Field(
        None, description="Private statistics that scale the numeric columns."
    )
    features: Features = Field(
        None,
        description="What inputs become before the model sees them: orientation histograms or "
        "private principal components.",
    )
    user: str | None = Field(
        None, description="The column that says whose each record is, for `sampler: user`."
    )

    @abstractmethod
    def table(self, path: Path, *, key: str) -> TableFile:
        """Return a file of this kind that `data.<key>` names."""

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if self.users is not None and self.user is None:
            raise ValueError(
                "expected user, a column, beside users, got none. Say whose each record is."
            )
        if not self.inputs.columns:
            raise ValueError(
                "expected numeric or categorical columns, got none. "
                "Declare the columns to learn from."
            )
        if self.normalize is not None and not self.numeric:
            raise ValueError(
                "expected numeric columns that normalize can scale, got none. Leave normalize out."
            )
        name, times = Counter(self.column_names.values()).most_common(1)[0]
        if times > 1:
            raise ValueError(f"expected each column once, got {name!r} {times} times.")
        if self.test_path is not None:
            refuse_test_share(self.split, beside="test_path")
        return self

    @property
    def inputs(self) -> TableInputs:
        """The columns that a model learns from, and the target."""
        columns: tuple[Column, ...] = (
            *self.numeric,
            *self.categorical,
            *self.ordinal,
            *self.boolean,
            *self.date,
        )
        return TableInputs(columns, self.target, self.missing, self.categories)

    @property
    def task(self) -> Task:
        if self.target.classes is None:
            return "regression"
        return class_task(len(self.target.classes))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs.width,)

    @property
    def input_layout(self) -> InputLayout:
        if self.feature_map is not None:
            return super().input_layout
        return InputLayout(self.input_shape, self.inputs.category_counts)

    @property
    def outputs(self) -> int:
        if self.target.classes is None or self.task != "multiclass":
            return 1
        return len(self.target.classes)

    @property
    def private_scaling(self) -> PrivateScaling | None:
        if self.normalize is None:
            return None
        return self.normalize.of_columns([column.column for column in self.numeric])

    @property
    def scaled_features(self) -> int:
        return len(self.numeric)

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        if not self.numeric:
            return ()
        means = tuple(column.centre_and_scale[0] for column in self.numeric)
        deviations = tuple(column.centre_and_scale[1] for column in self.numeric)
        constants = padded(Constants(mean=means, std=deviations), self.input_shape[0])
        if not any(column.clamps for column in self.numeric):
            return (constants,)
        lower = [-math.inf if column.lower is None else column.lower for column in self.numeric]
        upper = [math.inf if column.upper is None else column.upper for column in self.numeric]
        return Limits(tuple(lower), tuple(upper)), constants

    @property
    def public_bounds(self) -> tuple[str, ...]:
        """The columns whose values are held to public bounds, with the bounds, for a statement."""
        held = [
            f"{column.column}: {column.lower:g} to {column.upper:g}"
            for column in self.numeric
            if column.clamps
        ]
        for dates in self.date:
            held.append(f"{dates.column}: {dates.earliest} to {dates.latest}")
        return tuple(held)

    @property
    def column_names(self) -> dict[tuple[str | int, ...], str]:
        """Every column that is read, by its key in the spec: inputs, target, user."""
        named: dict[tuple[str | int, ...], str] = {}
        for block in INPUT_BLOCKS:
            for number, column in enumerate(getattr(self, block)):
                named["data", block, number, "column"] = column.column
        named["data", "target", "column"] = self.target.column
        if self.user is not None:
            named["data", "user"] = self.user
        return named

    @property
    def class_labels(self) -> tuple[str, ...]:
        return self.target.class_names

    def in_units_of_the_target(self, numbers: Any) -> Any:
        return numbers * self.target.std + self.target.mean

    @property
    def by_users(self) -> bool:
        return self.user is not None

    def record_files(self) -> list[Path]:
        return [self.path]

    def check_files(self) -> None:
        problems: list[Problem] = []
        for key in ("path", "test_path"):
            path = getattr(self, key)
            if path is None:
                continue
            try:
                self.table(path, key=key).check(self.column_names)
            except SpecError as error:
                problems += error.problems
        if problems:
            raise SpecError(problems)

    def load(self) -> TensorDataset | Splits:
        records = self._read(self.path, key="path")
        if self.test_path is None:
            return records
        return Splits(train=records, val=None, test=self._read(self.test_path, key="test_path"))

    def new_inputs(self, path: Path) -> Iterator[NewInputs]:
        """Read the columns that a model learns from; the target needn't be there."""
        from dppipe.data.columns.new_rows import new_table, read_new_rows

        table = new_table(path, like=self.table(path, key="path"))
        names = {key: name for key, name in self.column_names.items() if key[1] in INPUT_BLOCKS}
        return read_new_rows(
            table, self.inputs, names, drop=self.drops_bad_records, notice=self._misfit_notice
        )

    def encode_rows(self, rows: Any) -> Tensor:  # -> [n, inputs]
        """Return the inputs of rows: a pyarrow table, a data frame, or a list of dictionaries."""
        from dppipe.data.columns.new_rows import encode_rows

        return encode_rows(self.inputs, rows)

    def _read(self, path: Path, *, key: str) -> TensorDataset:
        import numpy

        from dppipe.data.tables.rows import GrowingRows
        from dppipe.data.tables.values import texts_of

        inputs = self.inputs
        table = self.table(path, key=key)
        is_number = self.target.classes is None
        x = GrowingRows(inputs.width, numpy.float32)
        y = GrowingRows(1, numpy.float32 if is_number else numpy.int64)
        valid = GrowingRows(1, numpy.bool_)
        users: list[numpy.ndarray] = []
        for block in table.blocks(self.column_names, misfit_notice=self._misfit_notice):
            found = inputs.encode(block)
            if found.fault is not None and not self.drops_bad_records:
                place = table.place(block.first + found.fault.row, found.fault.column)
                raise bad_record(place, found.fault.message)
            x.append(found.inputs)
            y.append(cast("numpy.ndarray", found.targets))
            valid.append(found.valid[:, None])
            if self.user is not None:
                ids = texts_of(block.values[-1]).fill_null("")
                users.append(numpy.asarray(ids.to_pylist()))
        rows = x.finish()
        if not len(rows):
            raise UsageError(f"{path}: expected records, got none. Is it the right file?")
        if is_number:
            made = make_regression(rows, y.finish(), place=str(path))
        else:
            classes = len(self.target.class_names)
            made = make_classified(rows, y.finish()[:, 0], classes=classes, place=str(path))
        made.is_fresh = True  # type: ignore[attr-defined]  # nobody else holds its tensors
        if self.drops_bad_records:
            made = with_valid(made, valid.finish()[:, 0])
        if self.user is not None:
            made = cast("TensorDataset", with_users(made, numpy.concatenate(users)))
        return made

    @property
    def _misfit_notice(self) -> str | None:
        """What a message adds about a line with a wrong number of fields; None to drop it."""
        if not self.drops_bad_records:
            return DROP
        if self.user is None:
            return None
        return f"{NOTICE} It can't be dropped: nobody can tell whose record it is."
