"""New records without targets, for predictions: a few at a time, as the data kind loads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.data.reading.limits import Limits
    from dppipe.data.reading.scaling import Constants

_AT_ONCE = 8192


@dataclass(frozen=True)
class NewInputs:
    """Some records as the data kind loads them; one that can't be used is zeros."""

    inputs: Tensor  # [n, ...] of float32
    valid: NDArray[numpy.bool_]  # [n]


def read_arrays(
    path: Path,
    *,
    name: str,
    input_shape: Sequence[int],
    scaling: Sequence[Constants | Limits],
    drop: bool,
) -> Iterator[NewInputs]:
    """Read raw inputs from an `.npz` or `.npy` file: an array `[records, ...]`.

    Args:
        path: The file.
        name: The array of an archive, unless there is only one.
        input_shape: The shape of one input.
        scaling: The public constants by which the data kind scales inputs.
        drop: Whether a record that isn't finite is marked, rather than refused.
    """
    raw = _array(path, name=name)
    return scaled_pieces(path, raw, input_shape=input_shape, scaling=scaling, drop=drop)


def scaled_pieces(
    path: Path,
    raw: numpy.ndarray,
    *,
    input_shape: Sequence[int],
    scaling: Sequence[Constants | Limits],
    drop: bool,
) -> Iterator[NewInputs]:
    """Yield some raw inputs of a file at a time, scaled by public constants."""
    import numpy
    import torch

    expected = tuple(input_shape)
    if raw.shape[1:] != expected or raw.dtype.kind not in "biuf":
        raise UsageError(
            f"{path}: expected numbers of shape [records, {', '.join(map(str, expected))}], got "
            f"{raw.dtype} of shape {list(raw.shape)}."
        )
    for start in range(0, len(raw), _AT_ONCE):
        piece = numpy.array(raw[start : start + _AT_ONCE], dtype=numpy.float32)
        finite = numpy.isfinite(piece.reshape(len(piece), -1))
        valid = numpy.asarray(finite.all(axis=1), dtype=bool)
        piece[~valid] = 0
        if not valid.all() and not drop:
            row = start + int(numpy.argmin(valid)) + 1
            raise UsageError(f"{path}: record {row}: expected finite inputs, got others.")
        inputs = torch.from_numpy(piece)
        for transform in scaling:
            inputs = transform.transformed(inputs)
        yield NewInputs(inputs, valid)


def _array(path: Path, *, name: str) -> Any:
    import numpy

    if not path.is_file():
        raise UsageError(f"{path}: expected a file of inputs, got none. Correct the path.")
    with _refusing_damaged(path):
        found = numpy.load(path, allow_pickle=False, mmap_mode="r")
        if isinstance(found, numpy.ndarray):
            return found
        names = found.files
        chosen = name if name in names else names[0] if len(names) == 1 else None
        if chosen is not None:
            return found[chosen]
    raise UsageError(
        f"{path}: expected an array named {name!r}, or one array alone, got "
        f"{', '.join(names) or 'none'}."
    )


@contextmanager
def _refusing_damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError, EOFError, BadZipFile):
        raise UsageError(
            f"{path}: expected an .npz or .npy file of numbers, got something else."
        ) from None
