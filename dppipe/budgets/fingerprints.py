"""Fingerprints of datasets, so that a copy under another name is recognised.

A fingerprint is keyed with a secret of the store (`Store.fingerprint`), so it says nothing about
the records to anyone without the store. It depends on the bytes of the files that hold training
records. A copy with other columns, compression or order has another fingerprint, and so has data
that a class of the user's own generates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dppipe.component import Component
from dppipe.data.base import Data
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.budgets.store import Store

_BLOCK = 1 << 20
"""How many bytes of a file are read at once."""
_NOT_RECORDS = {*Data.model_fields, "normalize"}
"""Options that decide how records are used, not which records there are."""


@runtime_checkable
class HasRecordFiles(Protocol):
    """Data whose options also name files without training records."""

    def record_files(self) -> Sequence[Path]:
        """Return the files and folders that hold training records."""


def data_files(data: Component | None) -> list[Path]:
    """Return the files that a data kind's options name, those of a folder in order."""
    if data is None:
        return []
    return _files(value for value in vars(data).values() if isinstance(value, Path))


def fingerprints(store: Store, data: Component) -> tuple[str, ...]:
    """Return a dataset's fingerprint in a store, then the one that earlier versions computed."""
    present = store.fingerprint(data_contents(data))
    earlier = store.fingerprint(_earlier_contents(data))
    return (present,) if present == earlier else (present, earlier)


def data_contents(data: Component) -> list[bytes]:
    """Return the digest of each file with training records; of the options where there is none.

    Neither a test file nor another split, holdout or scaling makes other records.
    """
    files = _files(data.record_files()) if isinstance(data, HasRecordFiles) else data_files(data)
    if files:
        return [_file_digest(file) for file in files]
    options = {name: value for name, value in data.to_data().items() if name not in _NOT_RECORDS}
    return [_options_digest(options)]


def _earlier_contents(data: Component) -> list[bytes]:
    """Return what earlier versions used: all files, with test files, or else all options."""
    files = data_files(data)
    if files:
        return [_file_digest(file) for file in files]
    return [_options_digest(data.to_data())]


def _files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(filter(Path.is_file, path.rglob("*")))
        else:
            files.append(path)
    return files


def _options_digest(options: dict[str, Any]) -> bytes:
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).digest()


def _file_digest(file: Path) -> bytes:
    """Return a file's digest; a file that hasn't changed is read only once."""
    try:
        stat = file.stat()
        return _digest(file, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise UsageError(
            f"{file}: expected a file that can be read, got {error.strerror}."
        ) from error


@lru_cache(maxsize=4096)
def _digest(file: Path, *_: int) -> bytes:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(_BLOCK):
            digest.update(block)
    return digest.digest()
