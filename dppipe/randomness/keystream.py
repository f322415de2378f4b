"""Secret bytes: the keystream of AES-256 in counter mode, from the `cryptography` library.

A stream is keyed once and read forward only. It can't be copied, pickled or used after a fork: each
of these would repeat bytes, and noise that is used twice cancels out. Only the cipher holds the
key.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_ZEROS = bytes(1 << 20)
SLACK = 15
"""Extra bytes that a buffer needs: older releases of the library require them."""


class ByteSource(Protocol):
    """A source of random bytes: a `Keystream`, or a NumPy generator in a test."""

    def bytes(self, length: int, /) -> bytes:
        """Return the next `length` bytes."""
        ...


class Keystream:
    """An endless sequence of secret bytes.

    Guarantee: without the key, its bytes can't be told from uniform ones, if AES-256 is secure.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError(f"expected a key of 32 bytes, got {len(key)} bytes")
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._process = os.getpid()

    def bytes(self, length: int, /) -> bytes:
        """Return the next `length` bytes."""
        self._refuse_fork()
        return self._cipher.update(bytes(length))

    def read_into(self, buffer: NDArray[numpy.uint8], size: int) -> None:
        """Write the next `size` bytes to the start of `buffer`, which needs `SLACK` bytes more."""
        self._refuse_fork()
        for start in range(0, size, len(_ZEROS)):
            zeros = memoryview(_ZEROS)[: size - start]
            self._cipher.update_into(zeros, buffer[start : start + len(zeros) + SLACK].data)

    def _refuse_fork(self) -> None:
        if os.getpid() != self._process:
            raise PrivacyRefusal(
                "secret stream: expected the process that made it, got a fork of it, which would "
                "repeat its bytes. Make a stream of its own in each process."
            )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a secret stream can't be copied or pickled: its copy would repeat its bytes"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"
