"""Words of a public list: a file with one of them a line."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dppipe.component import Field
from dppipe.data.reading.files import describe_missing
from dppipe.data.texts.tokenizers.base import Tokenizer, read_public
from dppipe.data.texts.tokenizers.splitting import SplitOn, splitter
from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from dppipe.data.texts.tokenizers.base import Encode


class FileTokenizer(Tokenizer):
    """A tokenizer whose rules are in a public file."""

    path: Path = Field(description="The file; it is taken as public.")
    sha256: str | None = Field(
        None,
        pattern="^[0-9a-f]{64}$",
        description="The file's SHA-256 in hex, so that another file is refused.",
    )

    @property
    def public_file(self) -> Path:
        return self.path

    def check_files(self) -> None:
        message = describe_missing(self.path)
        if message is not None:
            raise SpecError([Problem(("data", "tokenizer", "path"), message)])
        found = hashlib.sha256(read_public(self.path)).hexdigest()
        if self.sha256 not in (None, found):
            message = f"expected the file whose SHA-256 is this, got {self.path} with {found}."
            raise SpecError([Problem(("data", "tokenizer", "sha256"), message)])


class Vocabulary(FileTokenizer):
    """Each word of a public list has its own id; other words share one."""

    kind: Literal["vocabulary"] = "vocabulary"
    lowercase: bool = Field(True, description="Whether large letters become small ones first.")
    split: SplitOn = Field(
        "punctuation",
        description="Words are runs of letters, digits and inner apostrophes, or whatever stands "
        "between `spaces`.",
    )

    @property
    def ids(self) -> int:
        return len(self._words) + 2

    @property
    def one_per_word(self) -> bool:
        return self.split == "spaces"

    @property
    def _words(self) -> dict[str, int]:
        self.check_files()
        return _numbered(self.path, self.path.stat().st_mtime_ns)

    def encoder(self) -> Encode:
        import numpy

        words_of = splitter(self.split, lowercase=self.lowercase)
        known = self._words
        other = len(known) + 1

        def encode(text: str) -> NDArray[numpy.int64]:
            return numpy.array([known.get(word, other) for word in words_of(text)], numpy.int64)

        return encode


@lru_cache(maxsize=4)
def _numbered(path: Path, changed: int) -> dict[str, int]:  # part of the key
    """Return the words of a file, numbered from 1 in their order."""
    try:
        lines = read_public(path).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: expected UTF-8 text, got other bytes. Convert it.") from None
    words: dict[str, int] = {}
    for line, text in enumerate(lines, start=1):
        word = text.strip()
        if word in words:
            raise UsageError(f"{path}: line {line}: expected each word once, got one again.")
        if word:
            words[word] = len(words) + 1
    if not words:
        raise UsageError(f"{path}: expected a word a line, got none. Is it the right file?")
    return words
