"""The reader: YAML 1.2 scalars, places of keys and values, and texts that can't do harm."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.spec.yaml.reader import MAX_DEPTH, Place, read_yaml
from dppipe.spec.yaml.scalars import read_scalar
from dppipe.spec.yaml.writer import write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0", 0),
        ("+12", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        *(
            (word, word)
            for word in (
                "yes",
                "no",
                "on",
                "off",
                "y",
                "nan",
                "inf",
                "1_000",
                "12:30:00",
                "2026-01-01",
                "tRue",
                "-",
                ".",
            )
        ),
    ],
)
def test_scalars_are_read_as_yaml_1_2_says(text: str, value: object) -> None:
    read = read_scalar(text)
    assert read.value == value
    assert type(read.value) is type(value)
    assert read.fault is None


@pytest.mark.parametrize(
    "text",
    [
        "0123",
        "-07",
        "00",
        ".nan",
        ".inf",
        "-.INF",
        "1e999",
        "-1e400",
        "1e-999",
        "9" * 5000,
        "0x" + "f" * 20,
    ],
)
def test_numbers_that_would_surprise_are_refused(text: str) -> None:
    assert read_scalar(text).fault is not None
    assert read_scalar(text).value == text


def test_quoted_text_stays_text() -> None:
    assert read_yaml("a: '1e-5'\nb: \"true\"\nc: |\n  0123\n").data == {
        "a": "1e-5",
        "b": "true",
        "c": "0123\n",
    }


def test_every_key_and_value_has_its_place() -> None:
    document = read_yaml("a: 1\nb:\n  c: [x, {d: 2}]\n")
    assert document.data == {"a": 1, "b": {"c": ["x", {"d": 2}]}}
    assert document.keys == {
        ("a",): Place(1, 1),
        ("b",): Place(2, 1),
        ("b", "c"): Place(3, 3),
        ("b", "c", 1, "d"): Place(3, 11),
    }
    assert document.values[("b", "c", 0)] == Place(3, 7)
    assert document.values[("b", "c", 1, "d")] == Place(3, 14)


def test_faults_are_collected_and_reading_goes_on() -> None:
    document = read_yaml("a: 01\nb: 2\nc: *x\na: 3\nd: !t 4\n? {k: v}\n: 5\n5: 6\ne: ok\n")
    assert [fault.place.line for fault in document.faults] == [1, 3, 4, 5, 6, 8]
    assert document.data["e"] == "ok"
    assert document.readable


def test_nesting_is_limited_without_recursion() -> None:
    assert not read_yaml("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)).faults
    for text in ("[" * 5000, "a: " * 1 + "{a: " * 5000, "- " * 5000):
        document = read_yaml(text)
        assert not document.readable
        assert document.faults


def test_an_expanding_file_stays_small() -> None:
    """Nine levels of nine aliases would be 387 million words."""
    lines = ["a0: &a0 [x]"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)
    ]
    document = read_yaml("\n".join(lines))
    assert not document.readable
    assert ["at most 100,000 characters" in fault.message for fault in document.faults] == [True]


@given(st.text(max_size=80))
@settings(deadline=None)
def test_no_text_breaks_the_reader(text: str) -> None:
    document = read_yaml(text)
    assert document.readable or document.faults


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda value: value != 0 or math.copysign(1, value) > 0
    ),
    st.text(),
    st.sampled_from(
        [
            "1e-5",
            "on",
            "0123",
            ".nan",
            "null",
            "",
            "- a",
            "a: b",
            "#",
            "'",
            "\n",
            " x ",
            "=",
            "<<",
            "1_0",
            "0x1",
            "~",
        ]
    ),
)
_DATA = st.dictionaries(
    st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1),
    st.recursive(
        _SCALARS,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        ),
    ),
    max_size=5,
)


@given(_DATA)
@settings(deadline=None)
def test_what_is_written_reads_back_exactly(data: dict[str, object]) -> None:
    document = read_yaml(write_yaml(data))
    assert document.faults == []
    assert document.data == data
    assert repr(document.data) == repr(data)
