"""Words, hashed into a stated number of buckets: no list of words is needed.

Words and n-grams get their bucket from 64 bits of BLAKE2b, and so depend on their text alone.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal

from dppipe.component import Field
from dppipe.data.texts.tokenizers.base import Tokenizer
from dppipe.data.texts.tokenizers.splitting import SplitOn, splitter

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from dppipe.data.texts.tokenizers.base import Encode

_REMEMBERED = 1 << 20
"""How many words' hashes are kept in memory."""
_ODD = 0x9E3779B97F4A7C15
"""A 64-bit odd number without a pattern; a product with it spreads bits upwards."""


class Words(Tokenizer):
    """Each word is a token, and each run of up to `ngrams` words."""

    kind: Literal["words"] = "words"
    buckets: int = Field(
        65_536, gt=0, description="How many ids words are hashed into; some words share one."
    )
    lowercase: bool = Field(True, description="Whether large letters become small ones first.")
    split: SplitOn = Field(
        "punctuation",
        description="Words are runs of letters, digits and inner apostrophes, or whatever stands "
        "between `spaces`.",
    )
    ngrams: int = Field(
        1, ge=1, le=5, description="The longest run of words that is a token of its own."
    )
    distinct: bool = Field(
        False, description="Whether a text has each token once, where it came first."
    )
    ignore: tuple[str, ...] = Field(
        (), description="Words that are left out, a public list; as they are after `lowercase`."
    )

    @property
    def ids(self) -> int:
        return self.buckets + 1

    @property
    def one_per_word(self) -> bool:
        alone = self.ngrams == 1 and not self.distinct and not self.ignore
        return alone and self.split == "spaces"

    def encoder(self) -> Encode:
        import numpy

        words_of = splitter(self.split, lowercase=self.lowercase)
        ignored = frozenset(self.ignore)
        remembered: dict[str, int] = {}

        def encode(text: str) -> NDArray[numpy.int64]:
            words = words_of(text)
            if ignored:
                words = [word for word in words if word not in ignored]
            if len(remembered) > _REMEMBERED:
                remembered.clear()
            for word in words:
                if word not in remembered:
                    remembered[word] = hash_of(word)
            hashes = numpy.array([remembered[word] for word in words], dtype=numpy.uint64)
            found = with_ngrams(hashes, longest=self.ngrams)
            ids = (found % numpy.uint64(self.buckets)).astype(numpy.int64) + 1
            return distinct(ids) if self.distinct else ids

        return encode


def hash_of(word: str) -> int:
    """Return 64 bits of BLAKE2b of a word."""
    digest = hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


# [words] of uint64 -> [tokens] of uint64
def with_ngrams(hashes: numpy.ndarray, *, longest: int) -> NDArray[Any]:
    """Return the hash of each word, followed by those of the longer runs that end with it."""
    import numpy

    if longest == 1 or not len(hashes):
        return hashes
    found = numpy.zeros((len(hashes), longest), dtype=numpy.uint64)
    exists = numpy.zeros((len(hashes), longest), dtype=bool)
    found[:, 0] = hashes
    exists[:, 0] = True
    for length in range(1, longest):
        # The run that ends one word earlier, then this word; order matters.
        earlier = found[:-1, length - 1]
        mixed = (earlier * numpy.uint64(_ODD)) ^ (earlier >> numpy.uint64(29))
        found[1:, length] = mixed * numpy.uint64(_ODD) + hashes[1:]
        exists[1:, length] = exists[:-1, length - 1]
    return found[exists]


def distinct(ids: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
    """Return each id once, in the order of their first places."""
    import numpy

    _, first = numpy.unique(ids, return_index=True)
    return ids[numpy.sort(first)]
