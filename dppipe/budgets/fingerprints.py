"""What records a data set consists of, so that a copy under another name is recognised.

A fingerprint is keyed with a secret of the store (`Store.fingerprint`): it tells copies apart for those who hold the store and
says nothing about the records to anyone else. It follows the bytes of the files that hold training records: a copy that was
written anew (other columns, compression, order) is another data set to it, and so is what a class of the user's own makes up.
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

_PIECE = 1 << 20
_NOT_RECORDS = {*Data.model_fields, "normalize"}
"""Options that say how records are used, not which they are."""


@runtime_checkable
class HasRecordFiles(Protocol):
    """Data whose options name other files beside those of its training records."""

    def record_files(self) -> Sequence[Path]:
        """Return the files and folders that hold training records."""


def data_files(data: Component | None) -> list[Path]:
    """Return the files that a data kind's options name, those of a folder in order."""
    if data is None:
        return []
    return _files(value for value in vars(data).values() if isinstance(value, Path))


def fingerprints(store: Store, data: Component) -> tuple[str, ...]:
    """Return a data set's fingerprint in a store, then those that earlier versions gave it."""
    found = (store.fingerprint(data_contents(data)), store.fingerprint(_earlier_contents(data)))
    return tuple(dict.fromkeys(found))


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
    """Return what earlier versions took: all files, test files too, or all options."""
    return [_file_digest(file) for file in data_files(data)] or [_options_digest(data.to_data())]


def _files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        files += sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]
    return files


def _options_digest(options: dict[str, Any]) -> bytes:
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).digest()


def _file_digest(file: Path) -> bytes:
    """Read a file at most once while it doesn't change."""
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
        while piece := opened.read(_PIECE):
            digest.update(piece)
    return digest.digest()
