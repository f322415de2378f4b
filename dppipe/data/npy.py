"""NumPy arrays in files of their own, of which a record is read when it is drawn.

They may be larger than the memory: only the numbers of drawn records are ever read. Arrays that fit
into the memory are better kept as `npz`, which checks them before anything is charged and takes
private statistics and features.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.base import Data, Splits, Task
from dppipe.data.reading.normalize import PublicNormalize
from dppipe.data.reading.npy_files import NpyFile, open_npy, read_row, wrong_array
from dppipe.data.reading.one_by_one import RecordsOnDisk
from dppipe.data.reading.scaling import Constants
from dppipe.data.reading.tensors import class_task
from dppipe.data.splitting.parts import refuse_test_share
from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.data.reading.limits import Limits


class Npy(Data, kind="npy"):
    """Inputs `[records, ...]` in x.npy, targets in y.npy: integers for classes, floats for numbers.

    A record with NaN, an infinity or a label that isn't a class contributes nothing. With
    `on_bad_record: refuse` all records are read before anything is charged.
    """

    path: Path = Field(description="The folder with x.npy and y.npy.")
    test_path: Path | None = Field(
        None, description="A second folder, whose records are the test records."
    )
    x: str = Field("x", min_length=1, description="The name of the file of inputs, without .npy.")
    y: str = Field("y", min_length=1, description="The name of the file of targets, without .npy.")
    classes: int | None = Field(
        None, ge=2, description="Labels are 0 to classes - 1; left out for a regression."
    )
    normalize: PublicNormalize = Field(
        None, description="Constants: an input becomes (input - mean) / std."
    )

    @model_validator(mode="after")
    def _test_share_fits(self) -> Self:
        if self.test_path is not None:
            refuse_test_share(self.split, beside="test_path")
        return self

    @property
    def task(self) -> Task:
        return "regression" if self.classes is None else class_task(self.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self._inputs(self.path, key="path").shape[1:]

    @property
    def outputs(self) -> int:
        if self.classes is not None:
            return 1 if self.classes == 2 else self.classes
        _, targets = self._files(self.path, key="path")
        return targets.shape[1] if len(targets.shape) == 2 else 1

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        # Numbers of any type become 32-bit floats, without constants too.
        return super().public_scaling or (Constants(),)

    @property
    def reads_one_by_one(self) -> bool:
        return True

    def count(self) -> int:
        inputs, _ = self._files(self.path, key="path")
        return self.known_count(inputs.shape[0])

    def record_files(self) -> list[Path]:
        return [self.path / f"{self.x}.npy", self.path / f"{self.y}.npy"]

    def check_files(self) -> None:
        inputs, targets = self._files(self.path, key="path")
        if self.test_path is None:
            return
        others = self._files(self.test_path, key="test_path")
        for ours, theirs in zip((inputs, targets), others, strict=True):
            if ours.shape[1:] != theirs.shape[1:]:
                raise wrong_array(theirs, f"records of shape {list(ours.shape[1:])}")

    def load(self) -> Dataset[Any] | Splits:
        self.check_files()
        train: Any = self._records(self.path, key="path")
        if self.test_path is None:
            return train  # type: ignore[no-any-return]
        test: Any = self._records(self.test_path, key="test_path")
        return Splits(train=train, val=None, test=test)

    def _records(self, folder: Path, *, key: str) -> ArrayRecords:
        inputs, targets = self._files(folder, key=key)
        return ArrayRecords(inputs, targets, self.public_scaling, classes=self.classes)

    def _inputs(self, folder: Path, *, key: str) -> NpyFile:
        inputs = open_npy(folder / f"{self.x}.npy", key=key)
        if len(inputs.shape) < 2:
            raise wrong_array(inputs, "numbers of shape [records, ...]")
        return inputs

    def _files(self, folder: Path, *, key: str) -> tuple[NpyFile, NpyFile]:
        """Return both files; refuse arrays that don't fit together or to the task."""
        inputs = self._inputs(folder, key=key)
        targets = open_npy(folder / f"{self.y}.npy", key=key)
        if self.classes is not None:
            if targets.dtype.kind not in "biu" or len(targets.shape) != 1:
                raise wrong_array(targets, "integers of shape [records]")
        elif targets.dtype.kind in "biu":
            message = (
                f"expected the number of classes, got nothing, and {targets.path} contains "
                "integers. State it, or store floats."
            )
            raise SpecError([Problem(("data", "classes"), message)])
        elif len(targets.shape) > 2:
            raise wrong_array(targets, "floats of shape [records] or [records, outputs]")
        if inputs.shape[0] != targets.shape[0]:
            raise UsageError(
                f"{targets.path}: expected a target for each input, got another number of them."
            )
        return inputs, targets


class ArrayRecords(RecordsOnDisk):
    """The records of two arrays in files."""

    def __init__(
        self,
        inputs: NpyFile,
        targets: NpyFile,
        scaling: tuple[Constants | Limits, ...],
        *,
        classes: int | None,
    ) -> None:
        super().__init__(inputs.shape[0], scaling, classes=classes)
        self._inputs = inputs
        self._targets = targets

    def raw(self, place: int) -> tuple[Any, Any]:
        return read_row(self._inputs, place), read_row(self._targets, place)
