"""What a data set consists of, so that a copy under another name is recognised.

A fingerprint is keyed with a secret of the store (`Store.fingerprint`): it tells copies apart for those who hold the store and
says nothing about the records to anyone else. It follows the files' bytes: a copy that was written anew (other columns,
compression, order) is another data set to it, and so is what a class of the user's own makes up.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from dppipe.component import Component
from dppipe.errors import UsageError

_PIECE = 1 << 20


def data_files(data: Component | None) -> list[Path]:
    """Give the files that a data kind's options name, those of a folder in order."""
    named = [value for value in vars(data).values() if isinstance(value, Path)] if data is not None else []
    return [file for path in named for file in (sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path])]


def data_contents(data: Component) -> list[bytes]:
    """Give the digest of each file that a data kind's options name; of its options where they name none."""
    digests = [_digest(file) for file in data_files(data)]
    return digests or [hashlib.sha256(json.dumps(data.to_data(), sort_keys=True).encode()).digest()]


def _digest(file: Path) -> bytes:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        raise UsageError(f"{file}: expected a file that can be read, got {error.strerror}.") from error
    return digest.digest()
