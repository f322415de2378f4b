"""CIFAR-10 and CIFAR-100 in their binary version: colour images of 32 x 32 pixels.

Source of the format: the data set's page, https://www.cs.toronto.edu/~kriz/cifar.html. The files
have no header. A record is its label, or a coarse and a fine one, and then 3,072 bytes: all red,
all green and all blue pixels. So the size of a file says how many records it has.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from dppipe.component import Field
from dppipe.data.base import Data, Splits, Task
from dppipe.data.features.option import Features
from dppipe.data.reading.files import find_file
from dppipe.data.reading.normalize import Normalize
from dppipe.data.reading.scaling import Constants
from dppipe.data.reading.tensors import make_classified
from dppipe.data.splitting.parts import TrainSplit
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import TensorDataset

    from dppipe.data.reading.limits import Limits

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_WHITE = 255
_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))


class Cifar(Data, kind="cifar"):
    """Images in the binary batches of CIFAR; a pixel from 0 to 255 is divided by 255."""

    checks_records: ClassVar[bool] = True

    split: TrainSplit = Field(
        TrainSplit(),
        description="Shares of the training files; test_batch.bin, or test.bin, has the test "
        "records.",
    )
    root: Path = Field(
        description="The folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin, or, "
        "of CIFAR-100, with train.bin and test.bin."
    )
    classes: Literal[10, 20, 100] = Field(
        10, description="10: CIFAR-10; 100 and 20: the fine and coarse labels of CIFAR-100."
    )
    normalize: Normalize = Field(
        None,
        description="Constants or private statistics: "
        "a pixel from 0 to 1 becomes (pixel - mean) / std.",
    )
    features: Features = Field(
        None,
        description="What inputs become before the model sees them: orientation histograms or "
        "private principal components.",
    )

    @property
    def task(self) -> Task:
        return "multiclass"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return _SHAPE

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        return (Constants(std=(_WHITE,)), *super().public_scaling)

    def record_files(self) -> list[Path]:
        names = _BATCHES if self.classes == 10 else ("train.bin",)
        return [self.root / name for name in names]

    def count(self) -> int:
        return self.known_count(sum(self._count(path) for path in self.record_files()))

    def check_files(self) -> None:
        self.count()
        self._count(self._test_file)

    def load(self) -> Splits:
        self.check_files()
        return Splits(
            train=self._read(self.record_files()), val=None, test=self._read([self._test_file])
        )

    @property
    def _test_file(self) -> Path:
        return self.root / ("test_batch.bin" if self.classes == 10 else "test.bin")

    @property
    def _labels(self) -> int:
        """How many labels a record has."""
        return 1 if self.classes == 10 else 2

    def _count(self, path: Path) -> int:
        """Return the number of records in a file; refuse a size that isn't whole records."""
        size = find_file(path, key="root").stat().st_size
        record = self._labels + _PIXELS
        if size == 0 or size % record:
            raise UsageError(
                f"{path}: expected records of {record} bytes each, got {size} bytes in all. Unpack "
                "the binary version of CIFAR again, or correct data.classes."
            )
        return size // record

    def _read(self, paths: list[Path]) -> TensorDataset:
        import numpy

        records = numpy.concatenate([self._records(path) for path in paths])
        inputs = records[:, self._labels :].reshape(-1, *_SHAPE).astype("float32")
        inputs /= _WHITE
        if self.normalize is not None:
            self.normalize.apply(inputs)
        # Of CIFAR-100 the coarse label comes first.
        labels = records[:, 1 if self.classes == 100 else 0].astype("int64")
        place = str(paths[0] if len(paths) == 1 else self.root)
        return make_classified(
            inputs, labels, classes=self.classes, place=place, drop=self.drops_bad_records
        )

    def _records(self, path: Path) -> numpy.ndarray:  # -> [records, bytes]
        import numpy

        try:
            content = numpy.frombuffer(path.read_bytes(), dtype=numpy.uint8)
        except OSError as error:
            raise UsageError(
                f"{path}: expected a file that can be read, got {error.strerror}."
            ) from error
        return content.reshape(-1, self._labels + _PIXELS)
