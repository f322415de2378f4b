"""Bytes and characters as tokens."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.texts.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from dppipe.data.texts.tokenizers.base import Encode

LATIN = f" {string.ascii_lowercase}{string.digits}{string.punctuation}\n"
"""Small letters, digits, punctuation, space and line feed."""


class Bytes(Tokenizer):
    """Each byte of the text in UTF-8 is a token."""

    kind: Literal["bytes"] = "bytes"

    @property
    def ids(self) -> int:
        return 257

    def encoder(self) -> Encode:
        import numpy

        def encode(text: str) -> NDArray[numpy.int64]:
            return numpy.frombuffer(text.encode(), dtype=numpy.uint8).astype(numpy.int64) + 1

        return encode


class Characters(Tokenizer):
    """Each character is a token; those outside the alphabet share one."""

    kind: Literal["characters"] = "characters"
    alphabet: str = Field(LATIN, min_length=1, description="The characters that are told apart.")
    lowercase: bool = Field(True, description="Whether large letters become small ones first.")

    @model_validator(mode="after")
    def _alphabet_fits(self) -> Self:
        if len(set(self.alphabet)) < len(self.alphabet):
            raise ValueError("expected an alphabet of distinct characters, got one of them twice.")
        if self.lowercase and self.alphabet.lower() != self.alphabet:
            raise ValueError(
                "expected an alphabet of small letters beside lowercase: true, got a large one, "
                "which no text would have. Set lowercase: false."
            )
        return self

    @property
    def ids(self) -> int:
        return len(self.alphabet) + 2

    def encoder(self) -> Encode:
        import numpy

        known = {character: place for place, character in enumerate(self.alphabet, start=1)}
        other = len(self.alphabet) + 1

        def encode(text: str) -> NDArray[numpy.int64]:
            if self.lowercase:
                text = text.lower()
            return numpy.array([known.get(one, other) for one in text], dtype=numpy.int64)

        return encode
