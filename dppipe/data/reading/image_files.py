"""Image files, brought to one size, and the folders that hold them.

Guarantee: what is read of a file is a function of its bytes alone.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.data.reading.new_inputs import NewInputs
from dppipe.data.reading.one_by_one import RecordsOnDisk, as_input
from dppipe.errors import RECORD_ERRORS, Problem, SpecError, UsageError

if TYPE_CHECKING:
    import numpy

    from dppipe.data.reading.limits import Limits
    from dppipe.data.reading.scaling import Constants

_ENDINGS = (".png", ".jpg", ".jpeg")
_MOST_PIXELS = 100_000_000
"""A larger image counts as broken: a small file can announce more pixels than the memory holds."""
_AT_ONCE = 64


@dataclass(frozen=True)
class ImageForm:
    """What every image is brought to."""

    size: tuple[int, int]
    """Height and width."""
    channels: int
    resize: str

    def read(self, path: Path) -> numpy.ndarray:  # -> [channels, height, width] of uint8
        """Read an image; whatever is wrong with it is raised."""
        import numpy

        image_module, fit = _pillow()
        height, width = self.size
        resampling = image_module.Resampling.BILINEAR
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with image_module.open(path, formats=("PNG", "JPEG")) as opened:
                if opened.width * opened.height > _MOST_PIXELS:
                    raise ValueError("expected fewer pixels")
                image = opened.convert("RGB" if self.channels == 3 else "L")
        if self.resize == "crop":
            image = fit(image, (width, height), method=resampling)
        elif image.size != (width, height):
            image = image.resize((width, height), resampling)
        pixels = numpy.asarray(image, dtype=numpy.uint8).reshape(height, width, self.channels)
        return pixels.transpose(2, 0, 1)


class ImageFiles(RecordsOnDisk):
    """Image files with a label each."""

    def __init__(
        self,
        files: Sequence[tuple[Path, int]],
        form: ImageForm,
        scaling: tuple[Constants | Limits, ...],
        *,
        classes: int,
    ) -> None:
        super().__init__(len(files), scaling, classes=classes)
        _pillow()  # a missing package shows here, not as a broken record
        self._files = files
        self._form = form

    def raw(self, place: int) -> tuple[Any, Any]:
        path, label = self._files[place]
        return self._form.read(path), label


def class_folders(folder: Path, *, key: str) -> tuple[str, ...]:
    """Return the names of the folders in a folder, sorted; hidden ones are left out."""
    if not folder.is_dir():
        what = "is a file" if folder.is_file() else "doesn't exist"
        message = f"expected a folder, got {folder}, which {what}. Correct the path."
        raise SpecError([Problem(("data", key), message)])
    names = []
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.name.startswith("."):
            names.append(entry.name)
    return tuple(sorted(names))


def images_below(folder: Path) -> list[Path]:
    """Return the image files in a folder and the folders below it, sorted by their paths."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            file = Path(place, name)
            # A pipe with such a name would be waited for.
            if file.suffix.lower() in _ENDINGS and not name.startswith(".") and file.is_file():
                found.append(file)
    return sorted(found)


def read_images(
    files: Sequence[Path],
    form: ImageForm,
    scaling: tuple[Constants | Limits, ...],
    *,
    drop: bool,
) -> Iterator[NewInputs]:
    """Yield some images at a time; a broken one is zeros and marked, or refused."""
    import numpy
    import torch

    _pillow()
    for start in range(0, len(files), _AT_ONCE):
        rows = []
        valid = []
        for file in files[start : start + _AT_ONCE]:
            try:
                rows.append(as_input(form.read(file), scaling))
                valid.append(True)
            except RECORD_ERRORS:
                if not drop:
                    raise UsageError(f"{file}: expected a PNG or JPEG image.") from None
                rows.append(torch.zeros(form.channels, *form.size))
                valid.append(False)
        yield NewInputs(torch.stack(rows), numpy.array(valid, dtype=bool))


def _pillow() -> tuple[Any, Any]:
    """Return Pillow's module of images and its function that crops to a size."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise UsageError(
            "data.kind: expected Pillow, which reads images, to be installed. Install "
            "dppipe[images]."
        ) from None
    return Image, ImageOps.fit
