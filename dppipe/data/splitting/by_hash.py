"""The split under `add_remove`: a hash of the record decides its part.

So no record moves another one. By position, taking one record out would shift all that follow it,
and hundreds of training records would change instead of one. Equal records fall into the same part.
Read next: `encoding.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dppipe.data.reading.each_record import Unreadable, read_each
from dppipe.data.reading.users import ids_of
from dppipe.data.reading.validity import valid_of
from dppipe.data.splitting.encoding import encode_record, row_header
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor
    from torch.utils.data import Dataset

    from dppipe.data.splitting.parts import Split

_PURPOSE = b"dppipe split 1"
"""Makes these numbers independent of other hashes of the same records; part of what a split is."""
_CHUNK_BYTES = 2**24
"""How much of the data is copied at once to be hashed."""


def draw_parts(
    dataset: Dataset[Any], split: Split, *, by_users: bool, seed: int
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:  # each [records of the part] of int64
    """Return the indices of the training, validation and test records.

    Guarantee: a record's part is a function of the record (of its user's id with `by_users`), the
    shares and the public seed. A record that can't be read, or is marked as invalid, is in no part.
    """
    import numpy

    places = _user_places(dataset, seed=seed) if by_users else _record_places(dataset, seed=seed)
    edges = numpy.cumsum([0.0, split.train, split.val, split.test])
    parts = []
    for low, high in pairwise(edges):
        parts.append(numpy.flatnonzero((places >= low) & (places < high)))
    train, val, test = parts
    return train, val, test


def _record_places(dataset: Dataset[Any], *, seed: int) -> NDArray[numpy.float64]:  # -> [records]
    """Return a number from 0 to 1 for each record; NaN, which is in no part, for a bad one."""
    import numpy
    from torch.utils.data import TensorDataset

    if isinstance(dataset, TensorDataset):
        places = _to_places(_hash_rows(dataset.tensors, seed=seed))
    else:
        places = _read_places(dataset, seed=seed)
    valid = valid_of(dataset)
    return places if valid is None else numpy.where(valid, places, numpy.nan)


def _user_places(dataset: Dataset[Any], *, seed: int) -> NDArray[numpy.float64]:  # -> [records]
    """Return a number from 0 to 1 for each record, by its user's id alone."""
    import numpy

    ids = ids_of(dataset)
    if ids is None:
        raise UsageError(
            "data.users: expected a dataset that says whose each record is, got one that doesn't. "
            "Leave it out."
        )
    users, owners = numpy.unique(ids, return_inverse=True)
    # As Python values: the width of a NumPy text follows the longest id, which is another user's.
    digests = [_hash(encode_record(user), seed=seed) for user in users.tolist()]
    return _to_places(digests)[owners]


def _read_places(dataset: Dataset[Any], *, seed: int) -> NDArray[numpy.float64]:  # -> [records]
    """Read each record once; one that can't be read or hashed gets NaN and stops nothing."""
    import numpy

    found = read_each(dataset, lambda record: _hash(encode_record(record), seed=seed))
    digests = []
    read = numpy.ones(len(found), dtype=bool)
    for row, digest in enumerate(found):
        if isinstance(digest, Unreadable):
            read[row] = False
            digests.append(_hash(b"", seed=seed))
        else:
            digests.append(digest)
    if len(found) and not read.any():
        raise UsageError(
            "data: expected records made of tensors, arrays, numbers and texts, "
            "got none that could be read. Under add_remove they are split by their contents."
        )
    return numpy.where(read, _to_places(digests), numpy.nan)


def _hash_rows(tensors: Sequence[Tensor], *, seed: int) -> list[bytes]:
    """Return the digest of each row, equal to `_hash` of the encoded record.

    It hashes about a million rows a second.
    """
    import numpy
    import torch

    rows = len(tensors[0])
    if not rows:
        return []
    started = _hasher(seed)
    started.update(row_header(tensors))
    flat = [tensor.detach().cpu().reshape(rows, math.prod(tensor.shape[1:])) for tensor in tensors]
    width = sum(tensor.shape[1] * tensor.element_size() for tensor in flat)
    chunk = max(1, _CHUNK_BYTES // max(1, width))
    digests = []
    for start in range(0, rows, chunk):
        columns = []
        for tensor in flat:
            columns.append(tensor[start : start + chunk].contiguous().view(torch.uint8).numpy())
        content = memoryview(numpy.concatenate(columns, axis=1).tobytes())
        for row in range(len(columns[0])):
            hasher = started.copy()
            hasher.update(content[row * width : (row + 1) * width])
            digests.append(hasher.digest())
    return digests


def _hasher(seed: int) -> hashlib.blake2b:
    return hashlib.blake2b(key=(seed % 2**64).to_bytes(8, "little"), person=_PURPOSE, digest_size=8)


def _hash(content: bytes, *, seed: int) -> bytes:
    hasher = _hasher(seed)
    hasher.update(content)
    return hasher.digest()


def _to_places(digests: Sequence[bytes]) -> NDArray[numpy.float64]:
    """Return uniform numbers from 0 to 1, of 53 bits each."""
    import numpy

    numbers = numpy.frombuffer(b"".join(digests), dtype="<u8")
    return (numbers >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53
