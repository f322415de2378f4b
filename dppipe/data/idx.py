"""IDX files in MNIST's layout: MNIST, Fashion-MNIST and the like, from a folder with four files.

The number of records and the shape of an image come from the files' headers. Test records are the
`t10k` files; validation records are a share of the training file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.data.base import Data, Splits, Task
from dppipe.data.features.option import Features
from dppipe.data.reading.files import find_file, open_bytes
from dppipe.data.reading.normalize import Normalize
from dppipe.data.reading.scaling import Constants
from dppipe.data.reading.tensors import class_task, make_classified
from dppipe.data.splitting.parts import TrainSplit
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import TensorDataset

    from dppipe.data.reading.limits import Limits
    from dppipe.data.reading.new_inputs import NewInputs

_UNSIGNED_BYTE = 8
_WHITE = 255


class Idx(Data, kind="idx"):
    """Images in MNIST's four files, gzipped or not; a pixel from 0 to 255 is divided by 255."""

    checks_records: ClassVar[bool] = True

    split: TrainSplit = Field(
        TrainSplit(),
        description="Shares of the training file; the t10k files are the test records.",
    )
    root: Path = Field(
        description="The folder with train-images-idx3-ubyte and its three companions, "
        "or their .gz."
    )
    classes: int = Field(10, ge=2, description="Labels are 0 to classes - 1.")
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
        return class_task(self.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        _, *image = self._shape("train", "images")
        return (1, *image)

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        return (Constants(std=(_WHITE,)), *super().public_scaling)

    def record_files(self) -> list[Path]:
        return [self._file("train", "images"), self._file("train", "labels")]

    def count(self) -> int:
        for part in ("train", "t10k"):
            images = self._shape(part, "images")[0]
            labels = self._shape(part, "labels")[0]
            if images != labels:
                raise UsageError(
                    f"{self._file(part, 'labels')}: expected a label for each image, {images}, "
                    f"got {labels} labels."
                )
        return self.known_count(self._shape("train", "images")[0])

    def check_files(self) -> None:
        self.count()

    def load(self) -> Splits:
        self.count()
        return Splits(train=self._read("train"), val=None, test=self._read("t10k"))

    def new_inputs(self, path: Path) -> Iterator[NewInputs]:
        """Read images from an IDX file, gzipped or not, or from an archive of NumPy."""
        from dppipe.data.reading.new_inputs import scaled_pieces

        if path.suffix in (".npy", ".npz") or not path.is_file():
            return super().new_inputs(path)
        images = _read_array(path, dimensions=3)[:, None]
        return scaled_pieces(
            path,
            images,
            input_shape=self.input_shape,
            scaling=self.public_scaling,
            drop=self.drops_bad_records,
        )

    def _file(self, part: str, what: str) -> Path:
        plain = self.root / f"{part}-{what}-idx{3 if what == 'images' else 1}-ubyte"
        zipped = plain.with_name(f"{plain.name}.gz")
        return zipped if zipped.is_file() and not plain.is_file() else find_file(plain, key="root")

    def _shape(self, part: str, what: str) -> tuple[int, ...]:
        path = self._file(part, what)
        with open_bytes(path, key="root") as file:
            return _read_shape(file, path=path, dimensions=3 if what == "images" else 1)

    def _array(self, part: str, what: str) -> numpy.ndarray:
        return _read_array(self._file(part, what), dimensions=3 if what == "images" else 1)

    def _read(self, part: str) -> TensorDataset:
        inputs = self._array(part, "images").astype("float32")[:, None]
        inputs /= _WHITE
        if self.normalize is not None:
            self.normalize.apply(inputs)
        labels = self._array(part, "labels").astype("int64")
        place = str(self._file(part, "labels"))
        return make_classified(
            inputs, labels, classes=self.classes, place=place, drop=self.drops_bad_records
        )


def _read_array(path: Path, *, dimensions: int) -> numpy.ndarray:
    import numpy

    with open_bytes(path, key="root") as file:
        shape = _read_shape(file, path=path, dimensions=dimensions)
        content = numpy.frombuffer(file.read(), dtype=numpy.uint8)
    if content.size != math.prod(shape):
        raise UsageError(
            f"{path}: expected {math.prod(shape)} bytes after the header, got {content.size}. "
            "Copy the file again."
        )
    return content.reshape(shape)


def _read_shape(file: IO[bytes], *, path: Path, dimensions: int) -> tuple[int, ...]:
    header = file.read(4 + 4 * dimensions)
    expected = struct.pack(">HBB", 0, _UNSIGNED_BYTE, dimensions)
    if len(header) != 4 + 4 * dimensions or not header.startswith(expected):
        raise UsageError(
            f"{path}: expected the header of an IDX file of bytes with {dimensions} dimension(s), "
            "got another."
        )
    shape = struct.unpack(f">{dimensions}I", header[4:])
    if not math.prod(shape):
        raise UsageError(
            f"{path}: expected at least one record, got a header that announces an empty file."
        )
    return shape
