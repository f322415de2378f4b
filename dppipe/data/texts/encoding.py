"""From rows of a file to token ids and targets: each record on its own.

Guarantee: what a row becomes depends on that row and on public options alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dppipe.data.columns.base import usable_rows
from dppipe.data.columns.inputs import Encoded, Fault
from dppipe.data.reading.tasks import NO_TAG
from dppipe.data.tables.values import texts_of
from dppipe.data.texts.tokenizers.base import PADDING

if TYPE_CHECKING:
    import numpy
    import pyarrow
    from numpy.typing import NDArray

    from dppipe.data.columns.target import Target
    from dppipe.data.tables.blocks import Block
    from dppipe.data.texts.tokenizers.base import Tokenizer

Keep = Literal["start", "end"]
"""Which end of a text is kept where it has too many tokens."""


@dataclass(frozen=True)
class TextInputs:
    """How the texts of a record become token ids of one length."""

    columns: tuple[str, ...]
    """The columns of texts; several are joined by line feeds."""
    tokenizer: Tokenizer
    length: int
    keep: Keep
    target: Target
    missing: tuple[str, ...]
    tags_words: bool = False
    """Whether the target holds a class for each word, rather than one for the record."""

    def encode(self, block: Block, *, with_target: bool = True) -> Encoded:
        """Return ids `[rows, length]`, and targets `[rows, 1]` or tags `[rows, length]`."""
        import numpy

        encode = self.tokenizer.encoder()
        joined, valid, fault = self._texts(block)
        ids = numpy.zeros((len(block), self.length), dtype=numpy.int64)
        kept = [self._cut(encode(text)) for text in joined]
        for row, found in enumerate(kept):
            ids[row, : len(found)] = found
        targets = None
        if with_target:
            values = block.values[len(self.columns)]
            if self.tags_words:
                targets, usable, reason = self._tags(values, joined)
            else:
                targets, usable, reason = self._targets(values)
            bad = valid & ~usable
            if fault is None and bad.any():
                row = int(bad.argmax())
                fault = Fault(row, self.target.column, reason(row))
            valid &= usable
            targets[~valid] = NO_TAG if self.tags_words else 0
        ids[~valid] = PADDING
        return Encoded(ids, targets, valid, fault)

    def _cut(self, ids: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
        return ids[: self.length] if self.keep == "start" else ids[-self.length :]

    def _texts(self, block: Block) -> tuple[list[str], NDArray[numpy.bool_], Fault | None]:
        """Return each row's text, whether it has one, and the first fault."""
        import numpy

        valid = numpy.ones(len(block), dtype=bool)
        valid[list(block.broken)] = False
        fault = None
        parts: list[list[str]] = []
        for name, values in zip(self.columns, block.values, strict=False):
            texts, reasons = python_texts(values)
            for row, reason in reasons.items():
                if valid[row] and (fault is None or row < fault.row):
                    fault = Fault(row, name, reason)
            valid[list(reasons)] = False
            parts.append(texts)
        joined = ["\n".join(row) for row in zip(*parts, strict=True)]
        return joined, valid, fault

    def _targets(self, values: pyarrow.Array) -> tuple[Any, NDArray[numpy.bool_], Any]:
        sound, _ = sound_texts(values)
        targets = self.target.encode(sound, missing=self.missing)

        def reason(row: int) -> str:
            return self.target.fault(sound[row : row + 1], missing=self.missing)

        return targets, usable_rows(targets), reason

    def _tags(
        self, values: pyarrow.Array, texts: Sequence[str]
    ) -> tuple[Any, NDArray[numpy.bool_], Any]:
        """Return the class of each word; a row is unusable if it has another number of them."""
        import numpy

        numbers = self.target.numbered
        tags = numpy.full((len(texts), self.length), NO_TAG, dtype=numpy.int64)
        reasons: dict[int, str] = {}
        found, _ = python_texts(values)
        for row, (text, words) in enumerate(zip(texts, found, strict=True)):
            named = words.split()
            known = [numbers.get(word) for word in named]
            if len(named) != len(text.split()):
                reasons[row] = "expected a class for each word, got another number of them."
            elif None in known:
                classes = len(self.target.class_names)
                reasons[row] = f"expected classes of the {classes} listed ones, got another text."
            else:
                cut = self._cut(numpy.array(known, dtype=numpy.int64))
                tags[row, : len(cut)] = cut
        usable = numpy.ones(len(texts), dtype=bool)
        usable[list(reasons)] = False
        return tags, usable, reasons.__getitem__


def python_texts(values: pyarrow.Array) -> tuple[list[str], dict[int, str]]:
    """Return values as texts, and what is wrong with those that are none, by their row."""
    sound, bad = sound_texts(values)
    reasons = dict.fromkeys(bad, "expected UTF-8 text, got other bytes. Convert it.")
    texts = []
    for row, text in enumerate(sound.to_pylist()):
        if text is None:
            reasons.setdefault(row, "expected a text, got a missing value. Drop the record.")
        texts.append(text or "")
    return texts, reasons


def sound_texts(values: pyarrow.Array) -> tuple[pyarrow.Array, list[int]]:
    """Return values as texts, and the rows whose bytes aren't UTF-8, which become null."""
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    is_text = pyarrow.types.is_string(values.type) or pyarrow.types.is_large_string(values.type)
    if not is_text:
        return texts_of(values), []
    try:
        values.validate(full=True)
    except pyarrow.ArrowInvalid:
        pass
    else:
        return values, []
    found: list[str | None] = []
    bad = []
    for row, data in enumerate(compute.cast(values, pyarrow.large_binary()).to_pylist()):
        try:
            found.append(None if data is None else data.decode())
        except UnicodeDecodeError:
            found.append(None)
            bad.append(row)
    return pyarrow.array(found, pyarrow.string()), bad
