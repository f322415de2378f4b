"""The split under `add_remove`: a hash of the record decides its part.

So no record moves another one. By position, taking one record out would shift all that follow it,
and hundreds of training records would change instead of one. Equal records fall into the same part.
Read next: `encoding.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class HashKey:
    """The public key of a hash: hashes with another seed or purpose are independent of it."""

    seed: int
    purpose: bytes
    """At most 16 bytes."""

    def hasher(self) -> hashlib.blake2b:
        """Return a hash that has seen nothing yet."""
        key = (self.seed % 2**64).to_bytes(8, "little")
        return hashlib.blake2b(key=key, person=self.purpose, digest_size=8)

    def digest(self, content: bytes) -> bytes:
        """Return 8 bytes that follow from a content and the key."""
        hasher = self.hasher()
        hasher.update(content)
        return hasher.digest()


def draw_parts(
    dataset: Dataset[Any], split: Split, *, by_users: bool, seed: int
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:  # each [records of the part] of int64
    """Return the indices of the training, validation and test records.

    Guarantee: a record's part is a function of the record (of its user's id with `by_users`), the
    shares and the public seed. A record that can't be read, or is marked as invalid, is in no part.
    """
    import numpy

    key = HashKey(seed, _PURPOSE)
    places = _user_places(dataset, key) if by_users else _record_places(dataset, key)
    _refuse_none_readable(places)
    places = places if by_users else _without_invalid(dataset, places)
    edges = numpy.cumsum([0.0, split.train, split.val, split.test])
    parts = []
    for low, high in pairwise(edges):
        parts.append(numpy.flatnonzero((places >= low) & (places < high)))
    train, val, test = parts
    return train, val, test


def hash_places(
    dataset: Dataset[Any], key: HashKey, *, by_users: bool
) -> NDArray[numpy.float64]:  # -> [records]
    """Return a number from 0 to 1 for each record; NaN for a bad one.

    Guarantee: a record's number is a function of the record (of its user's id with `by_users`) and
    the key. No record raises.
    """
    if by_users:
        return _user_places(dataset, key)
    return _without_invalid(dataset, _record_places(dataset, key))


def _record_places(dataset: Dataset[Any], key: HashKey) -> NDArray[numpy.float64]:  # -> [records]
    """Return a number from 0 to 1 for each record; NaN for one that can't be read."""
    from torch.utils.data import TensorDataset

    if isinstance(dataset, TensorDataset):
        return _to_places(_hash_rows(dataset.tensors, key))
    return _read_places(dataset, key)


def _without_invalid(
    dataset: Dataset[Any], places: NDArray[numpy.float64]
) -> NDArray[numpy.float64]:
    """Return the numbers with NaN, which is in no part, for records that are marked as invalid."""
    import numpy

    valid = valid_of(dataset)
    return places if valid is None else numpy.where(valid, places, numpy.nan)


def _user_places(dataset: Dataset[Any], key: HashKey) -> NDArray[numpy.float64]:  # -> [records]
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
    digests = [key.digest(encode_record(user)) for user in users.tolist()]
    return _to_places(digests)[owners]


def _read_places(dataset: Dataset[Any], key: HashKey) -> NDArray[numpy.float64]:  # -> [records]
    """Read each record once; one that can't be read or hashed gets NaN and stops nothing."""
    import numpy

    found = read_each(dataset, lambda record: key.digest(encode_record(record)))
    digests = []
    read = numpy.ones(len(found), dtype=bool)
    for row, digest in enumerate(found):
        if isinstance(digest, Unreadable):
            read[row] = False
            digests.append(key.digest(b""))
        else:
            digests.append(digest)
    return numpy.where(read, _to_places(digests), numpy.nan)


def _refuse_none_readable(places: NDArray[numpy.float64]) -> None:
    import numpy

    if len(places) and numpy.isnan(places).all():
        raise UsageError(
            "data: expected records made of tensors, arrays, numbers and texts, "
            "got none that could be read. Under add_remove they are split by their contents."
        )


def _hash_rows(tensors: Sequence[Tensor], key: HashKey) -> list[bytes]:
    """Return the digest of each row, equal to that of the encoded record.

    It hashes about a million rows a second.
    """
    import numpy
    import torch

    rows = len(tensors[0])
    if not rows:
        return []
    started = key.hasher()
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


def _to_places(digests: Sequence[bytes]) -> NDArray[numpy.float64]:
    """Return uniform numbers from 0 to 1, of 53 bits each."""
    import numpy

    numbers = numpy.frombuffer(b"".join(digests), dtype="<u8")
    return (numbers >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53
