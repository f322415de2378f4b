"""What a tokenizer is: public rules that turn one text into token ids.

Guarantee: the rules are options and public files. Nothing is fitted to private records, and one
text's ids depend on that text alone. Id 0 is padding; no token has it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.component import Options
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Encode = Callable[[str], NDArray[numpy.int64]]

PADDING = 0
"""The id of what fills a short text up."""


class Tokenizer(Options):
    """From one text to token ids."""

    @property
    @abstractmethod
    def ids(self) -> int:
        """How many ids there are, padding included."""

    @abstractmethod
    def encoder(self) -> Encode:
        """Return what turns one text into its ids, `[tokens]`, none of them 0."""

    def check_files(self) -> None:
        """Refuse a public file that isn't there, or another one than is stated."""

    @property
    def one_per_word(self) -> bool:
        """Whether every word that spaces separate becomes exactly one token."""
        return False

    @property
    def public_file(self) -> Path | None:
        """The file that the rules are read from, which is taken as public."""
        return None


def read_public(path: Path) -> bytes:
    """Read a tokenizer's file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"data.tokenizer.path: expected a file that can be read, got {path}: {error.strerror}."
        ) from error
