"""The SHA-256 of each tensor in a file of weights, read without torch.

A tensor is recognised by its bytes alone: another file format, other names, a prefix or only some
of the tensors don't hide it. `torch.save` writes a zip archive with the bytes of each tensor in an
entry of its own; a safetensors file has them one after another after a header. Nothing in a file is
unpickled. A file of another format has no hashes here; training hashes the tensors that it has
loaded in the same way (`dppipe.lightning.starting_weights`), and refuses what planning missed.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

_WIDEST = 8
"""The bytes of the widest number: data with this period holds one or two values only."""
_LONGEST_HEADER = 100_000_000
_SAMPLE = 1 << 12
_UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    RuntimeError,
    zipfile.BadZipFile,
)
"""What reading a file of another format can raise."""


def tensor_hashes(path: Path) -> frozenset[str]:
    """Return the hashes of a file's tensors; none if it is missing or has another format."""
    try:
        found = _zip_entries(path) if zipfile.is_zipfile(path) else _safetensors(path)
        hashes = [tensor_hash(data) for data in found]
    except _UNREADABLE:
        return frozenset()  # loading the file reports what is wrong with it
    return frozenset(known for known in hashes if known is not None)


def tensor_hash(data: bytes) -> str | None:
    """Return the SHA-256 of a tensor's bytes; None for one that many runs have, such as zeros."""
    return hashlib.sha256(data).hexdigest() if _varies(data) else None


def _varies(data: bytes) -> bool:
    if len(data) <= _WIDEST:
        return False
    sample = data[:_SAMPLE]
    return sample[_WIDEST:] != sample[:-_WIDEST] or data[_WIDEST:] != data[:-_WIDEST]


def _zip_entries(path: Path) -> Iterator[bytes]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if "data" in entry.filename.split("/")[:-1]:
                yield archive.read(entry)


def _safetensors(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_HEADER:
            return
        header = json.loads(file.read(length))
        start = 8 + length
        for name, tensor in header.items():
            if name != "__metadata__":
                first, last = tensor["data_offsets"]
                file.seek(start + first)
                yield file.read(last - first)
