"""Arrays in `.npy` files, of which single rows are read where they stand in the file.

A row is read by its position, not through a memory map: a file that is cut off during a run would
end a process that has mapped it, while a read only fails.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.data.reading.files import find_file
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True)
class NpyFile:
    """An array in a file: what its header says."""

    path: Path
    shape: tuple[int, ...]
    dtype: numpy.dtype[Any]
    offset: int
    """Where the first number stands, in bytes."""

    @property
    def row_bytes(self) -> int:
        """The size of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def open_npy(path: Path, *, key: str) -> NpyFile:
    """Read the header of an array of numbers; refuse a file that doesn't hold what it announces."""
    from numpy.lib import format as npy

    find_file(path, key=key)
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, columns_first, dtype = read(file)
            offset = file.tell()
            size = file.seek(0, os.SEEK_END)
    except (ValueError, EOFError):
        raise UsageError(f"{path}: expected a file written by numpy.save, got another.") from None
    except OSError as error:
        raise UsageError(
            f"{path}: expected a file that can be read, got {error.strerror}."
        ) from error
    if dtype.kind not in "biuf" or not shape or 0 in shape:
        raise wrong_array(NpyFile(path, shape, dtype, offset), "numbers of shape [records, ...]")
    if columns_first and len(shape) > 1:
        raise UsageError(
            f"{path}: expected an array whose records stand one after the other, got one in "
            "Fortran order. Save numpy.ascontiguousarray of it."
        )
    if size != offset + math.prod(shape) * dtype.itemsize:
        raise UsageError(
            f"{path}: expected as many bytes as the header announces, got {size} in all. Copy the "
            "file again."
        )
    return NpyFile(path, tuple(shape), dtype, offset)


def wrong_array(found: NpyFile, wanted: str) -> UsageError:
    """Return the error of an array of another type or shape."""
    shape = " x ".join(map(str, found.shape)) or "no dimension"
    return UsageError(f"{found.path}: expected {wanted}, got {found.dtype} of shape {shape}.")


def read_row(file: NpyFile, row: int) -> numpy.ndarray:  # -> [...]
    """Return one row; an OSError says that the file no longer holds it."""
    import numpy

    size = file.row_bytes
    with file.path.open("rb", buffering=0) as opened:
        opened.seek(file.offset + row * size)
        content = opened.read(size)
    if len(content) != size:
        raise OSError("the file is shorter than it was")
    return numpy.frombuffer(content, file.dtype).reshape(file.shape[1:])
