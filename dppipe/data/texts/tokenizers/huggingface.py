"""A tokenizer of the Hugging Face library `tokenizers`, from a local file."""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dppipe.data.texts.tokenizers.base import read_public
from dppipe.data.texts.tokenizers.vocabulary import FileTokenizer
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from dppipe.data.texts.tokenizers.base import Encode


class HuggingFace(FileTokenizer):
    """The tokens of a local `tokenizer.json`, taken as public; nothing is downloaded.

    An id is that of the file plus one, since id 0 is padding here. Special tokens of the file's
    template are added; its own truncation and padding aren't.
    """

    kind: Literal["huggingface"] = "huggingface"

    @property
    def ids(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True)) + 1

    @property
    def _tokenizer(self) -> Any:
        self.check_files()
        return _read(self.path, self.path.stat().st_mtime_ns)

    def encoder(self) -> Encode:
        import numpy

        tokenizer = self._tokenizer

        def encode(text: str) -> NDArray[numpy.int64]:
            return numpy.array(tokenizer.encode(text).ids, dtype=numpy.int64) + 1

        return encode


@lru_cache(maxsize=2)
def _read(path: Path, changed: int) -> Any:  # part of the key
    try:
        library = importlib.import_module("tokenizers")
    except ImportError:
        raise UsageError(
            "data.tokenizer: expected the library tokenizers for kind huggingface, got none. "
            "Install dppipe[tokenizers]."
        ) from None
    try:
        found = library.Tokenizer.from_buffer(read_public(path))
    except UsageError:
        raise
    except Exception:  # the library raises bare exceptions
        raise UsageError(
            f"{path}: expected a tokenizer.json of the library tokenizers, got something else."
        ) from None
    found.no_truncation()
    found.no_padding()
    return found
