"""NumPy archives: an array of inputs and an array of targets.

Their shapes and types are in the archive's headers.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.base import Data, Splits, Task
from dppipe.data.features.option import Features
from dppipe.data.reading.files import find_file
from dppipe.data.reading.normalize import Normalize
from dppipe.data.reading.tensors import class_task, make_classified, make_regression, to_float32
from dppipe.data.reading.users import with_users
from dppipe.data.splitting.parts import refuse_test_share
from dppipe.errors import Problem, SpecError, UsageError
from dppipe.spec.messages.suggestions import suggest_name

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import TensorDataset


class Header(NamedTuple):
    """What is known about an array without reading it."""

    shape: tuple[int, ...]
    dtype: numpy.dtype[Any]


class Npz(Data, kind="npz"):
    """Inputs `[records, ...]`; targets are integers for classes, or floats for a regression.

    Integers have the shape `[records]`, floats `[records]` or `[records, outputs]`.
    """

    checks_records: ClassVar[bool] = True

    path: Path = Field(description="The .npz file.")
    test_path: Path | None = Field(
        None, description="A second file, whose records are the test records."
    )
    x: str = Field("x", description="The name of the array of inputs.")
    y: str = Field("y", description="The name of the array of targets.")
    user: str | None = Field(
        None,
        description="The name of an array that says whose each record is, for `sampler: user`.",
    )
    classes: int | None = Field(
        None, ge=2, description="Labels are 0 to classes - 1; left out for a regression."
    )
    normalize: Normalize = Field(
        None, description="Constants or private statistics: an input becomes (input - mean) / std."
    )
    features: Features = Field(
        None,
        description="What inputs become before the model sees them: orientation histograms or "
        "private principal components.",
    )

    @model_validator(mode="after")
    def _users_together(self) -> Self:
        if self.users is not None and self.user is None:
            raise ValueError(
                "expected user, an array's name, beside users, got none. Say whose each record is."
            )
        if self.test_path is not None:
            refuse_test_share(self.split, beside="test_path")
        return self

    @property
    def task(self) -> Task:
        return "regression" if self.classes is None else class_task(self.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self._input_header().shape[1:]

    @property
    def outputs(self) -> int:
        if self.classes is not None:
            return 1 if self.classes == 2 else self.classes
        _, y = self._headers()
        return y.shape[1] if len(y.shape) == 2 else 1

    def count(self) -> int:
        return self.known_count(self._headers()[0].shape[0])

    def count_inputs(self) -> int:
        """Return the number of inputs, also of a file without targets."""
        return self.known_count(self._input_header().shape[0])

    @property
    def by_users(self) -> bool:
        return self.user is not None

    def record_files(self) -> list[Path]:
        return [self.path]

    def check_files(self) -> None:
        self._headers()
        if self.test_path is not None:
            self._of_tests(self.test_path)

    def load_inputs(self) -> TensorDataset:
        """Read the inputs alone; zeros stand in for targets."""
        import numpy

        self.count_inputs()
        with self._opened() as archive:
            inputs = to_float32(archive[self.x])
        if self.normalize is not None:
            self.normalize.apply(inputs)
        nothing = numpy.zeros((len(inputs), 1), dtype=numpy.float32)
        return make_regression(inputs, nothing, place=str(self.path), drop=self.drops_bad_records)

    def load(self) -> TensorDataset | Splits:
        records = self._read()
        if self.test_path is None:
            return records
        return Splits(train=records, val=None, test=self._of_tests(self.test_path)._read())

    def _of_tests(self, path: Path) -> Npz:
        """Return the data of the test file; its arrays have the shapes of the first file's."""
        changes: dict[str, Any] = {"path": path, "test_path": None, "records": None}
        found = self.model_copy(update=changes)
        try:
            facts = (found.input_shape, found.outputs)
            found.count()
        except SpecError as error:
            problems = [
                replace(problem, path=("data", "test_path"))
                if problem.path == ("data", "path")
                else problem
                for problem in error.problems
            ]
            raise SpecError(problems) from None
        if facts != (self.input_shape, self.outputs):
            raise UsageError(
                f"{path}: expected arrays of the shapes of {self.path}, got others. "
                "Correct data.test_path."
            )
        return found

    def _read(self) -> TensorDataset:
        import numpy

        self.count()
        with self._opened() as archive:
            inputs = to_float32(archive[self.x])
            targets = archive[self.y]
            users = archive[self.user] if self.user is not None else None
        if self.normalize is not None:
            self.normalize.apply(inputs)
        drop = self.drops_bad_records
        if self.classes is None:
            made = make_regression(
                inputs, targets.reshape(len(targets), -1), place=str(self.path), drop=drop
            )
        else:
            labels = targets.astype(numpy.int64)
            made = make_classified(
                inputs, labels, classes=self.classes, place=str(self.path), drop=drop
            )
        return made if users is None else cast("TensorDataset", with_users(made, users))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open the archive, and refuse one that can't be read to its end."""
        import numpy

        try:
            with numpy.load(self.path, allow_pickle=False) as archive:
                yield archive
        except (ValueError, OSError, zipfile.BadZipFile):
            raise UsageError(
                f"{self.path}: expected a whole archive, got one that is cut off or damaged."
            ) from None

    def _input_header(self) -> Header:
        x = self._header("x", self.x)
        if len(x.shape) < 2 or 0 in x.shape or x.dtype.kind not in "biuf":
            raise self._wrong(self.x, "numbers of shape [records, ...]", x)
        return x

    def _headers(self) -> tuple[Header, Header]:
        """Return the headers of inputs and targets, and refuse arrays that don't fit together."""
        x = self._input_header()
        y = self._header("y", self.y)
        self._check_targets(y)
        if x.shape[0] != y.shape[0]:
            raise self._wrong(self.y, f"a target for each of {x.shape[0]} records", y)
        if self.user is not None:
            user = self._header("user", self.user)
            if user.shape != x.shape[:1] or user.dtype.kind not in "iuSU":
                raise self._wrong(
                    self.user, f"an integer or a text for each of {x.shape[0]} records", user
                )
        return x, y

    def _check_targets(self, y: Header) -> None:
        if self.classes is not None:
            if y.dtype.kind not in "biu" or len(y.shape) != 1:
                raise self._wrong(self.y, "integers of shape [records]", y)
            return
        if y.dtype.kind in "biu":
            message = (
                f"expected the number of classes, got nothing, and {self.y!r} contains integers. "
                "State it, or store floats."
            )
            raise SpecError([Problem(("data", "classes"), message)])
        if y.dtype.kind != "f" or len(y.shape) not in (1, 2):
            raise self._wrong(self.y, "floats of shape [records] or [records, outputs]", y)

    def _header(self, key: str, name: str) -> Header:
        from numpy.lib import format as npy

        find_file(self.path, key="path")
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{name}.npy") as entry:
                version = npy.read_magic(entry)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(entry)
        except KeyError:
            message = (
                f"expected the name of an array in {self.path}, got {name!r}, which isn't there."
            )
            guess = suggest_name(name, self._names())
            raise SpecError([Problem(("data", key), f"{message}{guess}")]) from None
        except (ValueError, OSError, EOFError, zipfile.BadZipFile):
            raise UsageError(
                f"{self.path}: expected an archive written by numpy.savez, got something else."
            ) from None
        return Header(shape, dtype)

    def _names(self) -> list[str]:
        with zipfile.ZipFile(self.path) as archive:
            return [member.removesuffix(".npy") for member in archive.namelist()]

    def _wrong(self, name: str, wanted: str, header: Header) -> UsageError:
        shape = " x ".join(map(str, header.shape)) or "no dimension"
        return UsageError(
            f"{self.path}: array {name!r}: expected {wanted}, got {header.dtype} of shape {shape}."
        )
