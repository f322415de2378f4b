"""Texts in YAML read back equal, above all those that look like something else."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.spec import spec_from_text
from dppipe.spec.yaml.reader import read_yaml
from dppipe.spec.yaml.writer import write_yaml

DIGITS = "0179.eExo+-_"
MARKS = "0a ~:#-'\"{[,&*!|>%@`?\\\t\n="
LOOKALIKES = [
    *(
        "08",
        "-007",
        "1e400",
        "-1e400",
        "1e-400",
        "9223372036854775808",
        "0x" + "f" * 30,
        "9" * 5000,
    ),
    *(".inf", "-.INF", "+.Inf", ".nan", ".NaN", "null", "Null", "NULL", "~", "", "true", "FALSE"),
    *("0x1F", "0o17", "1_000", "12:30:45", "2024-01-01", "yes", "Off", "<<", "=", "---", "..."),
]

CODES = [*range(0x300), *range(0x2000, 0x2070), 0x3000, 0xFEFF, 0xFFFD, 0x1F600]
EVERY_CHARACTER = [chr(code) for code in CODES]


def short_texts(characters: str, longest: int) -> list[str]:
    """Return every text of up to so many of these characters."""
    texts = []
    for length in range(longest + 1):
        texts += ["".join(letters) for letters in product(characters, repeat=length)]
    return texts


def read_back(data: Any) -> Any:
    document = read_yaml(write_yaml({"data": data}))
    assert document.faults == []
    return document.data["data"]


@pytest.mark.parametrize("texts", [short_texts(DIGITS, 3), short_texts(MARKS, 2), LOOKALIKES])
def test_every_short_text_reads_back_as_the_same_text(texts: list[str]) -> None:
    assert read_back(texts) == texts


@pytest.mark.parametrize("texts", [short_texts(DIGITS, 2), short_texts(MARKS, 2), LOOKALIKES[:7]])
def test_every_short_text_reads_back_as_a_key(texts: list[str]) -> None:
    held = dict.fromkeys(texts, "08")
    assert read_back(held) == held


@pytest.mark.parametrize("form", ["{}", "a{}b", "{} ", " {}", "a {} b", "{0}{0}"])
def test_every_character_is_kept_wherever_it_stands(form: str) -> None:
    texts = [form.format(character) for character in EVERY_CHARACTER]
    assert read_back(texts) == texts


@given(st.lists(st.text(DIGITS + MARKS, max_size=30) | st.sampled_from(LOOKALIKES)))
@settings(deadline=None)
def test_texts_that_look_like_numbers_read_back_at_any_depth(texts: list[str]) -> None:
    assert read_back([texts, {"inner": {"texts": texts}}]) == [texts, {"inner": {"texts": texts}}]


@pytest.mark.parametrize(
    "number",
    [0, -1, 2**63 - 1, -(2**63), 0.0, 5e-324, -1e-300, 1.7976931348623157e308, 1e16, 1e-5],
)
def test_numbers_at_the_edge_of_their_range_read_back_with_their_type(number: float) -> None:
    assert repr(read_back([number, {"a": number}])) == repr([number, {"a": number}])


TABLE = """\
version: 1
name: table
seed: 7
data:
  kind: csv
  path: d.csv
  records: 1000
  holdout: public
  missing: ["", "00", "1e400"]
  numeric: [{column: "007", fill: 0}]
  categorical: [{column: "null", values: ["08", "8", "1e400", ".nan", "true", "~"]}]
  target: {column: "0x1", classes: ["010", "10", "1e5"]}
model: {kind: logistic}
optimizer: {kind: sgd, lr: 0.25}
sampler: {kind: poisson, expected_batch_size: 50}
clipping: {kind: flat}
noise: {kind: constant, noise_multiplier: auto}
accountant: {kind: pld}
budget: {epsilon: 3.0, delta: 1.0e-5}
train: {epochs: 2}
"""


def test_a_spec_whose_names_and_classes_look_like_numbers_reads_back_equal() -> None:
    spec = spec_from_text(TABLE)
    again = spec_from_text(spec.to_yaml())
    assert again == spec
    assert again.to_yaml() == spec.to_yaml()
    assert again.data.target.classes == ("010", "10", "1e5")  # type: ignore[attr-defined]
