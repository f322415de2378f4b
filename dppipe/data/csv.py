"""Delimited text: columns that are declared with the public constants that encode them.

Read next: `reading/columns.py`, what a column can be; `reading/tables.py`, how rows are read.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, cast

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.base import Data, Splits, Task
from dppipe.data.features.option import Features
from dppipe.data.reading.bad_records import DROP, NOTICE
from dppipe.data.reading.columns import Categorical, Column, Numeric, Target, usable_rows
from dppipe.data.reading.headers import check_header
from dppipe.data.reading.private_scaling import PrivateScaling, padded
from dppipe.data.reading.scaling import Constants
from dppipe.data.reading.tables import Cells, Layout, read_columns
from dppipe.data.reading.tensors import class_task, make_classified, make_regression
from dppipe.data.reading.users import with_users
from dppipe.data.reading.validity import with_valid
from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import TensorDataset


class Csv(Data, kind="csv"):
    """A table as a text file, gzipped or not. Columns that aren't declared are left out.

    White space around values doesn't count.

    Guarantee: means, deviations, lists of values and classes are options; nothing is fitted to the
    records, except statistics that `normalize` pays for.
    """

    checks_records: ClassVar[bool] = True

    path: Path = Field(description="The file.")
    test_path: Path | None = Field(
        None, description="A second file, whose records are the test records."
    )
    delimiter: str = Field(
        ",", pattern=r'^[^" \r\n]$', description="The character that separates fields."
    )
    header: bool = Field(True, description="Whether the first row names the columns.")
    names: tuple[str, ...] | None = Field(
        None, description="The names of all columns, where the file has no header."
    )
    comment: str = Field("", description="Rows that start with this are skipped.")
    missing: tuple[str, ...] = Field(("", "?"), description="Texts that mean a missing value.")
    numeric: tuple[Numeric, ...] = Field(
        (), description="Columns of numbers; they come first in the input."
    )
    categorical: tuple[Categorical, ...] = Field(
        (), description="Columns of words; each becomes one 0/1 input per stated value."
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

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.header == (self.names is not None):
            raise ValueError("expected names with header: false, and only there. State either.")
        if self.users is not None and self.user is None:
            raise ValueError(
                "expected user, a column, beside users, got none. Say whose each record is."
            )
        if not self.numeric and not self.categorical:
            raise ValueError(
                "expected numeric or categorical columns, got none. "
                "Declare the columns to learn from."
            )
        if self.normalize is not None and not self.numeric:
            raise ValueError(
                "expected numeric columns that normalize can scale, got none. Leave normalize out."
            )
        name, times = Counter(self._columns.values()).most_common(1)[0]
        if times > 1:
            raise ValueError(f"expected each column once, got {name!r} {times} times.")
        if self.test_path is not None and self.split.test > 0:
            share = f"split: {{train: {1 - self.split.val:g}, val: {self.split.val:g}, test: 0}}"
            raise ValueError(
                f"expected split.test to be 0 beside test_path, got {self.split.test:g}. "
                f"Set {share}."
            )
        return self

    @property
    def task(self) -> Task:
        if self.target.classes is None:
            return "regression"
        return class_task(len(self.target.classes))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (len(self.numeric) + sum(len(column.values) for column in self.categorical),)

    @property
    def outputs(self) -> int:
        if self.target.classes is None or self.task != "multiclass":
            return 1
        return len(self.target.classes)

    @property
    def scaled_features(self) -> int:
        return len(self.numeric)

    @property
    def public_scaling(self) -> tuple[Constants, ...]:
        if not self.numeric:
            return ()
        means = tuple(column.mean for column in self.numeric)
        deviations = tuple(column.std for column in self.numeric)
        return (padded(Constants(mean=means, std=deviations), self.input_shape[0]),)

    @property
    def _columns(self) -> dict[tuple[str | int, ...], str]:
        """Every column that is read, by its key in the spec: inputs, target, user."""
        named: dict[tuple[str | int, ...], str] = {}
        for number, numeric in enumerate(self.numeric):
            named["data", "numeric", number, "column"] = numeric.column
        for number, categorical in enumerate(self.categorical):
            named["data", "categorical", number, "column"] = categorical.column
        named["data", "target", "column"] = self.target.column
        if self.user is not None:
            named["data", "user"] = self.user
        return named

    @property
    def by_users(self) -> bool:
        return self.user is not None

    def record_files(self) -> list[Path]:
        return [self.path]

    def check_files(self) -> None:
        problems: list[Problem] = []
        for key, path in (("path", self.path), ("test_path", self.test_path)):
            if path is None:
                continue
            try:
                check_header(path, layout=self._layout, columns=self._columns, key=key)
            except SpecError as error:
                problems += error.problems
        if problems:
            raise SpecError(problems)

    @property
    def _layout(self) -> Layout:
        return Layout(self.delimiter, self.names, self.comment)

    def load(self) -> TensorDataset | Splits:
        records = self._read(self.path, key="path")
        if self.test_path is None:
            return records
        return Splits(train=records, val=None, test=self._read(self.test_path, key="test_path"))

    def _read(self, path: Path, *, key: str) -> TensorDataset:
        import numpy

        blocks: list[list[numpy.ndarray]] = []
        users: list[str] = []
        for cells in read_columns(
            path,
            layout=self._layout,
            columns=self._columns,
            key=key,
            misfit_notice=self._misfit_notice,
        ):
            blocks.append(self._encode(cells))
            if self.user is not None:
                users += cells[-1].texts
        if not blocks:
            raise UsageError(f"{path}: expected records, got none. Is it the right file?")
        x, y, valid = (numpy.concatenate(each) for each in zip(*blocks, strict=True))
        if self.target.classes is None:
            made = make_regression(x, y, place=str(path))
        else:
            made = make_classified(x, y[:, 0], classes=len(self.target.classes), place=str(path))
        if self.drops_bad_records:
            made = with_valid(made, valid)
        if self.user is not None:
            made = cast("TensorDataset", with_users(made, numpy.array(users)))
        return made

    @property
    def _misfit_notice(self) -> str | None:
        """What a message adds about a line with a wrong number of fields; None to drop it."""
        if not self.drops_bad_records:
            return DROP
        if self.user is None:
            return None
        return f"{NOTICE} It can't be dropped: nobody can tell whose record it is."

    # [rows, inputs], [rows, 1] and [rows] of bool
    def _encode(self, cells: list[Cells]) -> list[numpy.ndarray]:
        """Return the inputs and targets of some rows, and whether each row can be used.

        A row that can't be used becomes zeros.
        """
        import numpy

        declared: tuple[Column, ...] = (*self.numeric, *self.categorical, self.target)
        encoded: list[numpy.ndarray] = []
        valid = numpy.ones(len(cells[0].texts), dtype=bool)
        valid[list(cells[0].broken)] = False
        for column, each in zip(declared, cells[: len(declared)], strict=True):
            block = column.encode(each, missing=self.missing)
            usable = usable_rows(block)
            if not self.drops_bad_records and not usable.all():
                row = int(numpy.argmin(usable))
                raise each.fault(row, column.fault(each.texts[row], missing=self.missing))
            valid &= usable
            encoded.append(block)
        for block in encoded:
            block[~valid] = 0
        return [numpy.concatenate(encoded[:-1], axis=1), encoded[-1], valid]
