"""Folders of PNG and JPEG images, one folder for each class.

The names of the class folders are public, and so is the number of files where the relation makes
the number of records public. An image is read when it is drawn. Read next:
`reading/image_files.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.base import Data, Splits, Task
from dppipe.data.reading.image_files import (
    ImageFiles,
    ImageForm,
    class_folders,
    images_below,
    read_images,
)
from dppipe.data.reading.normalize import PublicNormalize
from dppipe.data.reading.scaling import Constants
from dppipe.data.reading.tensors import class_task
from dppipe.data.splitting.parts import refuse_test_share
from dppipe.errors import Problem, SpecError

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.data.reading.limits import Limits
    from dppipe.data.reading.new_inputs import NewInputs

_WHITE = 255
Side = Annotated[int, Field(gt=0, le=10_000)]


class ImageFolder(Data, kind="image_folder"):
    """Images in folders, each named after its class; a pixel from 0 to 255 is divided by 255.

    Every file below a class folder that ends in .png, .jpg or .jpeg is a record; others are left
    out. A file that can't be read as an image contributes nothing. With `on_bad_record: refuse` all
    are read before anything is charged.
    """

    path: Path = Field(description="The folder that holds a folder for each class.")
    test_path: Path | None = Field(
        None, description="A second such folder, whose images are the test records."
    )
    classes: tuple[str, ...] | None = Field(
        None,
        min_length=2,
        description="The class folders in the order of the labels; if not stated, all folders by "
        "name. Their names are public.",
    )
    size: tuple[Side, Side] = Field(description="Height and width that images are brought to.")
    resize: Literal["stretch", "crop"] = Field(
        "stretch",
        description="`stretch` changes the sides to the size; `crop` keeps their ratio and cuts "
        "off what stands out, evenly on both sides.",
    )
    channels: Literal[1, 3] = Field(3, description="3: colours; 1: shades of grey.")
    normalize: PublicNormalize = Field(
        None, description="Constants: a pixel from 0 to 1 becomes (pixel - mean) / std."
    )

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.test_path is not None:
            refuse_test_share(self.split, beside="test_path")
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise ValueError("expected each class once in classes, got one twice.")
        return self

    @property
    def class_labels(self) -> tuple[str, ...]:
        if self.classes is not None:
            return self.classes
        names = class_folders(self.path, key="path")
        if len(names) < 2:
            raise _wrong("path", f"a folder for each class in {self.path}, got {len(names)}")
        return names

    @property
    def task(self) -> Task:
        return class_task(len(self.class_labels))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.channels, *self.size)

    @property
    def outputs(self) -> int:
        return 1 if self.task == "binary" else len(self.class_labels)

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        return (Constants(std=(_WHITE,)), *super().public_scaling)

    @property
    def reads_one_by_one(self) -> bool:
        return True

    def count(self) -> int:
        return self.known_count(len(self._files(self.path, key="path")))

    def record_files(self) -> list[Path]:
        return [self.path]

    def check_files(self) -> None:
        self._files(self.path, key="path")
        if self.test_path is not None:
            self._files(self.test_path, key="test_path")

    def load(self) -> Dataset[Any] | Splits:
        train: Any = self._records(self.path, key="path")
        if self.test_path is None:
            return train  # type: ignore[no-any-return]
        test: Any = self._records(self.test_path, key="test_path")
        return Splits(train=train, val=None, test=test)

    def new_inputs(self, path: Path) -> Iterator[NewInputs]:
        """Read a folder of images in the order of their paths, one image, or arrays of pixels."""
        if path.is_dir():
            files = images_below(path)
        elif path.suffix in (".npy", ".npz") or not path.is_file():
            yield from super().new_inputs(path)
            return
        else:
            files = [path]
        yield from read_images(files, self._form, self.public_scaling, drop=self.drops_bad_records)

    @property
    def _form(self) -> ImageForm:
        return ImageForm(self.size, self.channels, self.resize)

    def _records(self, folder: Path, *, key: str) -> ImageFiles:
        files = self._files(folder, key=key)
        return ImageFiles(files, self._form, self.public_scaling, classes=len(self.class_labels))

    def _files(self, folder: Path, *, key: str) -> list[tuple[Path, int]]:
        """Return every image with its label; refuse folders that aren't those of the classes."""
        names = self.class_labels
        present = class_folders(folder, key=key)
        unknown = [name for name in present if name not in names]
        missing = [name for name in names if name not in present]
        if unknown:
            raise _wrong(key, f"folders of the classes in {folder}, got {unknown[0]!r} too")
        if missing and key == "path":
            raise _wrong(key, f"a folder for each class in {folder}, got none for {missing[0]!r}")
        files: list[tuple[Path, int]] = []
        for label, name in enumerate(names):
            files += [(file, label) for file in images_below(folder / name)]
        if not files:
            raise _wrong(key, f"images (.png, .jpg, .jpeg) below {folder}, got none")
        return files


def _wrong(key: str, message: str) -> SpecError:
    """Return the error of a folder that `data.<key>` names."""
    text = f"expected {message}. Correct the path or data.classes."
    return SpecError([Problem(("data", key), text)])
