"""Tokenizers: public rules, one text at a time, and never the id of padding."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dppipe.data import Text
from dppipe.data.texts.tokenizers.base import Tokenizer
from dppipe.errors import SpecError, UsageError

DATA: dict[str, Any] = {
    "path": "t.tsv",
    "records": 5,
    "target": {"column": "label", "classes": ["no", "yes"]},
}
SETS: list[Any] = [
    "bytes",
    "characters",
    "words",
    {"kind": "characters", "alphabet": "abC", "lowercase": False},
    {"kind": "words", "buckets": 7, "ngrams": 3, "split": "spaces"},
    {"kind": "words", "buckets": 50, "distinct": True, "ignore": ["a"]},
]


def made(tokenizer: Any) -> Tokenizer:
    return Text.from_data({**DATA, "tokenizer": tokenizer}).tokenizer


def ids(tokenizer: Any, text: str) -> list[int]:
    return made(tokenizer).encoder()(text).tolist()


@settings(deadline=None, max_examples=40)
@given(texts=st.lists(st.text(), min_size=1, max_size=4), which=st.sampled_from(range(len(SETS))))
def test_ids_are_below_their_number_above_padding_and_of_one_text_alone(
    texts: list[str], which: int
) -> None:
    tokenizer = made(SETS[which])
    encode = tokenizer.encoder()
    for text in texts:
        found = encode(text)
        assert found.dtype == numpy.int64
        assert all(0 < number < tokenizer.ids for number in found.tolist())
        assert found.tolist() == ids(SETS[which], text)  # whatever was encoded before it


def test_bytes_and_characters_have_the_ids_of_their_lists() -> None:
    assert ids("bytes", "aé") == [1 + byte for byte in "aé".encode()]
    assert ids({"kind": "characters", "alphabet": "ab"}, "Bax") == [2, 1, 3]


def test_words_are_split_hashed_and_counted_as_the_options_say() -> None:
    big = {"kind": "words", "buckets": 2**40}
    one, two = ids(big, "one"), ids(big, "two")
    assert ids(big, "One, TWO!") == one + two
    assert ids({**big, "lowercase": False}, "One") != one
    assert ids({**big, "split": "spaces"}, "one, two")[1:] == two
    assert ids({**big, "ignore": ["one"]}, "one two one") == two
    assert ids({**big, "distinct": True}, "two one two") == two + one
    expected = int.from_bytes(hashlib.blake2b(b"one", digest_size=8).digest(), "big")
    assert one == [expected % 2**40 + 1]


def test_ngrams_follow_the_word_that_they_end_with_and_know_its_order() -> None:
    options = {"kind": "words", "buckets": 2**40, "ngrams": 2}
    alone = ids({**options, "ngrams": 1}, "a b c")
    found = ids(options, "a b c")
    assert [found[0], found[1], found[3]] == alone
    assert len(set(found)) == 5
    assert ids(options, "b a")[2] != found[2]
    assert ids(options, "x b c")[4] == found[4]


def test_a_vocabulary_numbers_the_words_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("the\nfilm\n\n")
    options = {"kind": "vocabulary", "path": str(path)}
    assert ids(options, "The bad film") == [1, 3, 2]
    assert made(options).ids == 4
    stated = hashlib.sha256(path.read_bytes()).hexdigest()
    assert ids({**options, "sha256": stated}, "film") == [2]
    with pytest.raises(SpecError, match=r"tokenizer\.sha256: expected the file whose SHA-256"):
        made({**options, "sha256": "0" * 64}).check_files()
    path.write_text("a\nb\na\n")
    with pytest.raises(UsageError, match="line 3: expected each word once"):
        _ = made(options).ids
    with pytest.raises(SpecError, match=r"tokenizer\.path: expected a file, got"):
        made({**options, "path": str(tmp_path / "none.txt")}).check_files()


def test_a_tokenizer_of_hugging_face_has_its_ids_plus_one(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "good": 1, "film": 2}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps(
            {
                "version": "1.0",
                "truncation": {
                    "direction": "Right",
                    "max_length": 1,
                    "strategy": "LongestFirst",
                    "stride": 0,
                },
                "padding": None,
                "added_tokens": [],
                "normalizer": None,
                "pre_tokenizer": {"type": "Whitespace"},
                "post_processor": None,
                "decoder": None,
                "model": model,
            }
        )
    )
    options = {"kind": "huggingface", "path": str(path)}
    assert made(options).ids == 4
    assert ids(options, "good old film") == [2, 1, 3]
    path.write_text("{}")
    with pytest.raises(UsageError, match=r"expected a tokenizer\.json"):
        _ = made(options).ids


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [
        ("word", "Did you mean 'words'"),
        ({"kind": "vocabulary"}, "path"),
        ("vocabulary", "alone. Write {kind: vocabulary, ...}"),
        ({"kind": "characters", "alphabet": "aa"}, "one of them twice"),
        ({"kind": "characters", "alphabet": "A"}, "Set lowercase: false"),
        ({"kind": "words", "buckets": 0}, "greater than 0"),
        ({"kind": "words", "bucket": 5}, "bucket"),
    ],
)
def test_options_that_make_no_tokenizer_are_refused(tokenizer: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        made(tokenizer)
