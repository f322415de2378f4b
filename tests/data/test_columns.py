"""Typed columns: each value becomes numbers by stated constants, from a text or a file's own type."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dppipe.data import Csv
from dppipe.data.columns.base import Column, usable_rows
from dppipe.data.columns.categorical import Categorical
from dppipe.data.columns.date import Date
from dppipe.data.columns.numeric import Numeric
from dppipe.data.columns.ordinal import Boolean, Ordinal
from dppipe.data.columns.target import Target
from dppipe.data.tables.blocks import Block

MISSING = ("", "?")


def encode(column: Column, values: list[Any], kind: pyarrow.DataType | None = None) -> list[Any]:
    found = column.encode(pyarrow.array(values, kind), missing=MISSING)
    return found.tolist()


def one(kind: type[Column], **options: Any) -> Column:
    return kind.from_data({"column": "c", **options})


def test_a_number_is_held_to_its_bounds_which_become_minus_one_and_one():
    column = one(Numeric, lower=0, upper=100)
    assert encode(column, ["-5", "0", "50", "100", "1e9"]) == [[-1], [-1], [0], [1], [1]]


def test_stated_constants_scale_after_the_bounds():
    column = one(Numeric, lower=0, upper=100, mean=40, std=10)
    assert encode(column, [130.0, 50.0]) == [[6], [1]]


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "abc"])
def test_what_is_no_finite_number_is_not_held_to_a_bound(text):
    assert math.isnan(encode(one(Numeric, lower=0, upper=1), [text])[0][0])


def test_a_missing_number_is_filled_and_marked():
    column = one(Numeric, fill=7, indicator=True)
    assert encode(column, ["1", "", "?", None]) == [[1], [7], [7], [7]]
    marks = column.marks(pyarrow.array(["1", "", "?", None]), missing=MISSING)  # type: ignore[attr-defined]
    assert marks.tolist() == [[0], [1], [1], [1]]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pyarrow.int8(), [1, -2, None]),
        (pyarrow.uint32(), [1, 2, None]),
        (pyarrow.float32(), [1.0, 2.5, None]),
        (pyarrow.bool_(), [True, False, None]),
        (pyarrow.decimal128(6, 2), [1, 2, None]),
        (pyarrow.dictionary(pyarrow.int8(), pyarrow.float64()), [1.0, 2.0, None]),
    ],
    ids=str,
)
def test_numbers_of_every_type_are_read_as_their_texts_would_be(kind, values):
    texts = [None if value is None else str(float(value)) for value in values]
    column = one(Numeric, fill=-9)
    assert encode(column, values, kind) == encode(column, texts)


def test_an_infinite_number_of_a_file_is_no_number():
    assert math.isnan(encode(one(Numeric), [math.inf])[0][0])


def test_words_become_one_input_for_each_listed_value():
    column = one(Categorical, values=["a", 7])
    assert encode(column, [" a ", "7", "b", "", None]) == [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]
    assert encode(column, [7, 8]) == [[0, 1], [0, 0]]


def test_other_and_missing_words_can_be_categories_of_their_own():
    column = one(Categorical, values=["a"], other="category", absent="category")
    assert encode(column, ["a", "b", "?"]) == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(("text", "option"), [("b", "other"), ("", "absent")])
def test_a_word_that_is_refused_is_unusable_and_named(text, option):
    column = one(Categorical, values=["a"], **{option: "refuse"})
    values = pyarrow.array(["a", text])
    assert usable_rows(column.encode(values, missing=MISSING)).tolist() == [True, False]
    fault = column.fault(values[1:], missing=MISSING)
    assert fault.startswith("expected")
    assert "missing" in fault if option == "absent" else "1 listed" in fault


def test_a_listed_value_counts_although_it_also_means_missing():
    assert encode(one(Categorical, values=["?"], absent="refuse"), ["?"]) == [[1]]


@given(texts=st.lists(st.text(max_size=5), min_size=1, max_size=30), buckets=st.integers(2, 40))
def test_a_bucket_depends_on_the_text_alone(texts, buckets):
    column = one(Categorical, buckets=buckets)
    together = encode(column, texts)
    for text, row in zip(texts, together, strict=True):
        assert encode(column, [text]) == [row]
        assert sum(row) == (0 if text.strip() in MISSING else 1)


def test_buckets_stay_the_same_for_ever():
    column = one(Categorical, buckets=10)
    found = [numpy.argmax(row) for row in encode(column, ["red", "green", "blue"])]
    assert found == [1, 8, 1]  # b2sum -l 64, as a number, modulo 10


def test_ordered_words_become_numbers_from_zero_to_one():
    column = one(Ordinal, values=["low", "mid", "high"], fill=0.5)
    assert encode(column, ["low", "high", "mid", "?"]) == [[0], [1], [0.5], [0.5]]
    assert math.isnan(encode(column, ["huge"])[0][0])


def test_truth_values_are_read_in_any_case_and_type():
    column = one(Boolean)
    assert encode(column, ["Yes", "FALSE", "1", "n"]) == [[1], [0], [1], [0]]
    assert encode(column, [True, False]) == [[1], [0]]
    assert encode(column, [1, 0]) == [[1], [0]]
    assert math.isnan(encode(column, ["maybe"])[0][0])
    uneven = one(Boolean, true=["a"], false=["b", "c", "d"])
    assert encode(uneven, ["a", "b", "d"]) == [[1], [0], [0]]


def test_dates_are_held_to_their_bounds_in_every_type():
    column = one(Date, earliest="2020-01-01", latest="2020-01-11")
    texts = ["2019-05-05", "2020-01-06", "2024-01-01"]
    assert encode(column, texts) == [[-1], [0], [1]]
    days = [datetime.date.fromisoformat(text) for text in texts]
    assert encode(column, days) == [[-1], [0], [1]]
    moments = [datetime.datetime.fromisoformat(text) for text in texts]
    assert encode(column, moments) == [[-1], [0], [1]]
    assert math.isnan(encode(column, ["2020-13-01"])[0][0])
    assert math.isnan(encode(column, [None], pyarrow.date32())[0][0])


def test_a_date_is_read_in_the_stated_form():
    column = one(Date, earliest="2020-01-01", latest="2020-01-11", format="%d.%m.%Y")
    assert encode(column, ["06.01.2020"]) == [[0]]


def test_texts_are_merged_into_classes():
    column = one(
        Target, classes=["ill", "well"], mapping={"flu": "ill", "cold": "ill", "none": "well"}
    )
    assert encode(column, ["cold", "none", "flu", "x", "well"]) == [[0], [1], [0], [-1], [1]]
    assert column.class_names == ("ill", "well")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Numeric, {"lower": 0}, "State both"),
        (Numeric, {"lower": 2, "upper": 1}, "expected lower < upper"),
        (Numeric, {"indicator": True}, "expected fill beside indicator"),
        (Categorical, {}, "either values or buckets"),
        (Categorical, {"values": ["a"], "buckets": 3}, "either values or buckets"),
        (Categorical, {"buckets": 3, "other": "refuse"}, "every text has a bucket"),
        (Ordinal, {"values": ["a", "a"]}, "expected distinct values"),
        (Boolean, {"true": ["A"], "false": ["a"]}, "expected distinct values"),
        (Date, {"earliest": "2020-01-02", "latest": "2020-01-01"}, "expected earliest < latest"),
        (Target, {"classes": ["a", "b"], "mapping": {"a": "b"}}, "expected distinct values"),
        (Target, {"classes": ["a", "b"], "mapping": {"x": "c"}}, "lead to one of the classes"),
    ],
)
def test_options_that_contradict_are_refused(kind, options, message):
    with pytest.raises(ValidationError, match=message):
        one(kind, **options)


def test_a_spec_with_its_defaults_filled_in_encodes_as_the_first_one_did() -> None:
    options = {
        "path": "d.csv",
        "records": 1,
        "numeric": [
            {"column": "a", "lower": 0, "upper": 10},
            {"column": "b", "lower": 0, "upper": 10, "std": 2},
            {"column": "c", "mean": 3},
            {"column": "d"},
            {"column": "e", "lower": -1, "upper": 3, "fill": 0, "indicator": True},
        ],
        "categorical": [{"column": "f", "buckets": 7, "absent": "category"}],
        "ordinal": [{"column": "g", "values": ["x", "y", "z"]}],
        "boolean": [{"column": "h", "fill": 0.5}],
        "date": [{"column": "i", "earliest": "2020-01-01", "latest": "2021-01-01"}],
        "target": {"column": "y", "classes": ["no", "yes"], "mapping": {"0": "no"}, "other": "yes"},
    }
    first = Csv.from_data(options)
    written = {key: value for key, value in first.to_data().items() if key != "kind"}
    second = Csv.from_data(written)
    texts = ["5", "5", "5", "5", "", "word", "z", "yes", "2020-05-05", "9"]
    block = Block([pyarrow.array([text]) for text in texts], 0)
    found = [data.inputs.encode(block) for data in (first, second)]
    assert (found[0].inputs == found[1].inputs).all()
    assert (found[0].targets == found[1].targets).all()
    assert found[0].inputs[0, :2].tolist() == [0.0, 2.5]
    assert first.public_scaling == second.public_scaling


def test_other_is_the_class_of_every_text_that_is_not_named_and_of_no_missing_value() -> None:
    target = Target(column="y", classes=("none", "some"), mapping={"0": "none"}, other="some")
    values = pyarrow.array(["0", "1", "17", "none", "some", "", None, "?"])
    found = target.encode(values, missing=("", "?"))
    assert found[:, 0].tolist() == [0, 1, 1, 0, 1, -1, -1, -1]
    with pytest.raises(ValueError, match=r"expected other to be one of the classes, got 'any'"):
        Target(column="y", classes=("none", "some"), other="any")
