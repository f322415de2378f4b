"""Features of whole datasets in files, so that a second run needn't compute them again.

Rules: they are in the folder `cache` beside the local store (`.dppipe/cache`, or the folder of the
file that DPPIPE_STORE names), never in a run directory. A file is named after a hash of the
inputs, the options and the arithmetic. It holds the features of private records, so its owner
alone may read it. Files are written whole or not at all; the ones that weren't used longest go
once there are too many bytes. The folder can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.local_folder import local_folder

if TYPE_CHECKING:
    import numpy
    from torch import Tensor

    from dppipe.data.features.base import FixedFeatures

ARITHMETIC = 1
"""Counted up where the same options give other numbers than before."""
MOST_BYTES = 2**31
"""How much is kept in all."""


def cached_features(features: FixedFeatures, inputs: Tensor) -> Tensor:
    """Return the features of a dataset's inputs, from a file if they were computed before."""
    import torch

    if inputs.dtype != torch.float32:
        return features.transformed(inputs)  # no kind of data loads such inputs
    path = _file(features, inputs)
    shape = (len(inputs), *features.output_shape(inputs.shape[1:]))
    found = _read(path, shape)
    if found is None:
        made = features.transformed(inputs)
        _write(path, made.numpy())
        return made
    return torch.from_numpy(found)


def _file(features: FixedFeatures, inputs: Tensor) -> Path:
    """Return the file of these inputs with these options."""
    options = features.model_dump_json(exclude={"cache"})
    what = f"{ARITHMETIC} {options} {inputs.dtype} {tuple(inputs.shape)}"
    digest = hashlib.sha256(what.encode())
    digest.update(inputs.contiguous().numpy().data)
    return local_folder() / "cache" / f"{digest.hexdigest()}.npy"


def _read(path: Path, shape: tuple[int, ...]) -> numpy.ndarray | None:
    """Return what a file holds; None where there is none, or another one than was written."""
    import numpy

    try:
        found = numpy.load(path, allow_pickle=False)
        os.utime(path)  # the ones that weren't used longest go first
    except (OSError, ValueError, EOFError):
        return None
    fits = isinstance(found, numpy.ndarray) and found.shape == shape
    return found if fits and found.dtype == numpy.float32 else None


def _write(path: Path, features: numpy.ndarray) -> None:
    """Write a file that its owner alone may read; a cache that can't be written is no error."""
    import numpy

    temporary = path.with_name(f".{path.name}.tmp-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            numpy.save(file, features, allow_pickle=False)
        temporary.replace(path)
        _make_room(path.parent)
    except OSError:
        pass
    finally:
        with suppress(OSError):
            temporary.unlink()


def _make_room(folder: Path) -> None:
    """Remove the files that weren't used longest, while there are too many bytes."""
    found = []
    for file in folder.glob("*.npy"):
        about = file.stat()
        found.append((about.st_mtime, about.st_size, file))
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found)[:-1]:
        if total <= MOST_BYTES:
            return
        file.unlink()
        total -= size
