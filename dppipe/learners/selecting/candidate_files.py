"""The hashes of candidates' files: a plan states which bytes may be chosen. No torch is needed."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from dppipe.errors import UsageError

_CHUNK = 1 << 20


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    try:
        known = path.stat()
        return _hash(path.resolve(), known.st_size, known.st_mtime_ns)
    except OSError as error:
        raise UsageError(
            f"learner.candidates: expected files that can be read, got {path}: {error.strerror}."
        ) from error


@functools.lru_cache(maxsize=1024)
def _hash(path: Path, size: int, changed: int) -> str:
    """Hash a file once, as long as its size and time stay: a plan asks for it many times."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
