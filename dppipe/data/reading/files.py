"""Opening a file that the spec names, gzipped or not; errors show its path and its key."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from dppipe.errors import Problem, SpecError, UsageError

_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_bytes(path: Path, *, key: str) -> Iterator[IO[bytes]]:
    """Open a file that `data.<key>` names, and unzip it if it is gzipped."""
    find_file(path, key=key)
    try:
        with path.open("rb") as plain:
            zipped = plain.read(2) == _GZIP_MAGIC
            plain.seek(0)
            if zipped:
                with gzip.open(plain) as unzipped:
                    yield cast(IO[bytes], unzipped)
            else:
                yield plain
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UsageError(
            f"{path}: expected a whole gzip file, got one that is cut off or damaged. "
            "Copy it again."
        ) from None
    except OSError as error:
        raise UsageError(
            f"data.{key}: expected a file that can be read, got {path}: {error.strerror}."
        ) from error


def find_file(path: Path, *, key: str) -> Path:
    """Return the path of a file; refuse a path that isn't one."""
    message = describe_missing(path)
    if message is not None:
        raise SpecError([Problem(("data", key), message)])
    return path


def describe_missing(path: Path) -> str | None:
    """Say that a path names no file; None where it names one."""
    if path.is_file():
        return None
    what = "is a folder" if path.is_dir() else "doesn't exist"
    where = "" if path.is_absolute() else f" in the working directory {Path.cwd()}"
    return f"expected a file, got {path}, which {what}{where}. Correct the path."
