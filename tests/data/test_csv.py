"""Tables: columns become numbers by stated constants, and a fault is named by line and column, never by a value."""

from __future__ import annotations

import csv
import gzip
import io
import traceback
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dppipe.data import Csv
from dppipe.data.tables import delimited
from dppipe.errors import SpecError, UsageError

SECRET = "4711-secret"

OPTIONS: dict[str, Any] = {
    "numeric": [{"column": "age", "mean": 40, "std": 10}],
    "categorical": [{"column": "town", "values": ["Ulm", "Bonn", "Köln"]}],
    "target": {"column": "ill", "classes": ["no", "yes"]},
}


def table(folder: Path, text: str, **options: Any) -> Csv:
    (folder / "d.csv").write_text(text, encoding="utf-8")
    return Csv.from_data({"path": str(folder / "d.csv"), **OPTIONS, **options})


def read(data: Csv) -> tuple[list[list[float]], list[float]]:
    inputs, targets = data.load().tensors  # type: ignore[union-attr]
    return inputs.tolist(), targets.tolist()


def test_columns_become_numbers_by_their_constants(tmp_path: Path) -> None:
    data = table(
        tmp_path, "name,age,town,ill\nx,50,Bonn,yes\ny,35,Köln,no\nz,40,Rom,no\n", records=3
    )
    assert (data.input_shape, data.outputs, data.task, data.count()) == ((4,), 1, "binary", 3)
    assert read(data) == ([[1, 0, 1, 0], [-0.5, 0, 0, 1], [0, 0, 0, 0]], [1, 0, 0])


def test_more_classes_make_numbers_of_classes(tmp_path: Path) -> None:
    target = {"column": "ill", "classes": [2, 1, 0]}
    data = table(tmp_path, "age,town,ill\n50,Bonn,0\n50,Bonn,2\n", target=target)
    assert (data.task, data.outputs) == ("multiclass", 3)
    assert data.load().tensors[1].tolist() == [2, 0]  # type: ignore[union-attr]


def test_a_target_without_classes_is_a_number(tmp_path: Path) -> None:
    data = table(
        tmp_path,
        "age,town,ill\n50,Bonn,7\n50,Bonn,3\n",
        target={"column": "ill", "mean": 5, "std": 4},
    )
    assert (data.task, data.outputs) == ("regression", 1)
    assert data.load().tensors[1].tolist() == [[0.5], [-0.5]]  # type: ignore[union-attr]


def test_uci_adult_can_be_expressed(tmp_path: Path) -> None:
    rows = "39, State-gov, <=50K\n50, ?, >50K\n\n"
    (tmp_path / "adult.data.gz").write_bytes(gzip.compress(rows.encode()))
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + rows.replace("K", "K.") + "\n")
    data = Csv.from_data(
        {
            "path": str(tmp_path / "adult.data.gz"),
            "test_path": str(tmp_path / "adult.test"),
            "split": {"train": 0.5, "val": 0.5, "test": 0},
            "records": 2,
            "header": False,
            "names": ["age", "workclass", "income"],
            "comment": "|",
            "numeric": [{"column": "age"}],
            "categorical": [{"column": "workclass", "values": ["Private", "State-gov"]}],
            "target": {"column": "income", "classes": ["<=50K", ">50K"], "strip": "."},
        }
    )
    splits = data.splits(seed=0)
    inputs, targets = splits.test.tensors  # type: ignore[union-attr]
    assert inputs.tolist() == [[39, 0, 1], [50, 0, 0]]
    assert targets.tolist() == [0, 1]
    assert len(splits.train) == len(splits.val) == data.train_count() == 1  # type: ignore[arg-type]


cell = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(
    rows=st.lists(
        st.tuples(st.floats(-1e6, 1e6), cell, st.sampled_from(["no", "yes"])),
        min_size=1,
        max_size=12,
    ),
    values=st.lists(cell.map(str.strip), min_size=1, max_size=3, unique=True),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    piece=st.integers(1, 5),
)
def test_any_table_that_can_be_written_is_read_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[Any],
    values: list[str],
    delimiter: str,
    piece: int,
) -> None:
    monkeypatch.setattr(delimited, "CHUNK", piece)
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([("age", "town", "ill"), *rows])
    categorical = [{"column": "town", "values": values}]
    (tmp_path / "d.csv").write_bytes(text.getvalue().encode())
    options = {**OPTIONS, "delimiter": delimiter, "categorical": categorical}
    inputs, targets = read(Csv.from_data({"path": str(tmp_path / "d.csv"), **options}))
    expected = [
        [(age - 40) / 10, *(float(town.strip() == value) for value in values)]
        for age, town, _ in rows
    ]
    numpy.testing.assert_allclose(inputs, expected, rtol=1e-6)
    assert targets == [float(ill == "yes") for *_, ill in rows]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"age,town,ill\n1,a,no\n{SECRET},a,no\n",
            r"line 3, column 1 \(age\): expected a number, got another text",
        ),
        (
            "age,town,ill\n1,a,no\n\n,a,no\n",
            r"line 4, column 1 \(age\): expected a number, got a missing value\. Give `fill`",
        ),
        (
            "age,town,ill\n?,a,no\n",
            r"line 2, column 1 \(age\): expected a number, got a missing value",
        ),
        ("age,town,ill\n1,a,no\nnan,a,no\n", r"line 3, column 1 \(age\): expected a finite number"),
        (
            "age,town,ill\n1,a,no\n1e99,a,no\n",
            r"line 3, column 1 \(age\): expected a finite number",
        ),
        (
            f"age,town,ill\n1,a,{SECRET}\n",
            r"line 2, column 3 \(ill\): expected one of the 2 classes of data\.target\.classes",
        ),
        (f"age,town,ill\n1,a,no\n1,{SECRET}\n", r"line 3: expected 3 fields, got 2"),
        (f"age,town,ill\n1,a,no,{SECRET}\n", r"line 2: expected 3 fields, got 4"),
        (f'age,town,ill\n1,"{SECRET}"a,no\n', r"line 2: expected delimited text, got a fault"),
        (f'age,town,ill\n1,"{SECRET},no\n', r"line 2: expected delimited text, got a fault"),
        (
            f"{SECRET},a,no\n1,a,no\n",
            r"expected one of 3 columns in the first row of .*, got 'age', .* Is it a header\?",
        ),
        ("age,age,town,ill\n1,1,a,no\n", r"got 'age', which is there more than once"),
        (f"{SECRET}\n1\n", r"expected one of 1 columns .*Is `delimiter` right\?"),
        ("age,town,ill\n", r"expected records, got none"),
        ("", r"expected records, got none"),
    ],
)
def test_a_fault_is_named_by_its_place_and_never_by_its_value(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        table(tmp_path, text).load()
    assert "d.csv" in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_wrong_column_names_are_told_all_at_once_each_by_its_key_and_the_number_of_a_near_miss(
    tmp_path: Path,
) -> None:
    data = table(tmp_path, "Age,towns,ill\n1,a,no\n", user="whose", users=1)
    with pytest.raises(SpecError) as caught:
        data.load()
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert set(found) == {
        ("data", "numeric", 0, "column"),
        ("data", "categorical", 0, "column"),
        ("data", "user"),
    }
    assert "Did you mean column 1?" in found["data", "numeric", 0, "column"]
    assert "Did you mean column 2?" in found["data", "categorical", 0, "column"]
    assert "Did you mean" not in found["data", "user"]
    assert not any(text in str(caught.value) for text in ("Age", "towns"))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"age,town,ill\n1,\xff\xfe,no\n")
    with pytest.raises(UsageError, match=r"expected UTF-8 text, got other bytes"):
        Csv.from_data({"path": str(tmp_path / "d.csv"), **OPTIONS}).load()


def test_a_byte_order_mark_and_quoted_line_breaks_are_no_trouble(tmp_path: Path) -> None:
    data = table(tmp_path, '\ufeffage,town,ill\r\n40,"Bonn\r\n",no\r\n30,Ulm,yes\r\n')
    assert read(data) == ([[0, 0, 1, 0], [-1, 1, 0, 0]], [0, 1])


def test_a_missing_number_can_be_filled_with_a_constant(tmp_path: Path) -> None:
    numeric = [{"column": "age", "mean": 40, "std": 10, "fill": 45}]
    data = table(
        tmp_path, "age,town,ill\n,a,no\n-1,a,no\n60,a,no\n", numeric=numeric, missing=["", "-1"]
    )
    assert [row[0] for row in read(data)[0]] == [0.5, 0.5, 2]


def test_a_number_that_stands_for_a_missing_value_needs_a_constant_too(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"line 3, column 1 \(age\): expected a number, got a missing value"
    ):
        table(tmp_path, "age,town,ill\n1,a,no\n-1,a,no\n", missing=["-1"]).load()


def test_the_number_of_records_must_be_stated_and_right(tmp_path: Path) -> None:
    text = "age,town,ill\n1,a,no\n2,a,no\n"
    with pytest.raises(
        SpecError, match=r"data\.records: expected the number of records, got nothing"
    ):
        table(tmp_path, text).count()
    with pytest.raises(
        UsageError, match=r"data\.records: expected the number of records in the data, 2, got 3"
    ):
        table(tmp_path, text, records=3).splits(seed=0)


def test_missing_files_are_named_with_their_keys(tmp_path: Path) -> None:
    share = {"train": 1, "val": 0, "test": 0}
    with pytest.raises(
        SpecError, match=r"data\.path: expected a file, got .*no\.csv, which doesn't exist"
    ):
        Csv.from_data({"path": str(tmp_path / "no.csv"), **OPTIONS}).load()
    with pytest.raises(
        SpecError, match=r"data\.test_path: expected a file, got .*, which is a folder"
    ):
        table(tmp_path, "age,town,ill\n1,a,no\n", test_path=str(tmp_path), split=share).load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": False}, "expected names with header: false"),
        ({"names": ["a", "b"]}, "expected names with header: false"),
        ({"numeric": [], "categorical": []}, "expected numeric or categorical columns"),
        ({"numeric": [{"column": "ill"}]}, "expected each column once, got 'ill' 2 times"),
        (
            {"test_path": "t.csv"},
            r"expected split\.test to be 0 beside test_path, got 0\.1\. Set split: \{train: 0\.9, val: 0\.1",
        ),
        (
            {"numeric": [{"column": "age", "mean": "fit"}]},
            "Statistics of private records are a release",
        ),
        ({"categorical": [{"column": "town"}]}, "values"),
        ({"categorical": [{"column": "town", "values": ["a", " a"]}]}, "expected distinct values"),
        ({"target": {"column": "ill", "classes": ["a"]}}, "at least 2"),
        (
            {"target": {"column": "ill", "classes": ["a", "b"], "std": 2}},
            "expected mean and std for a regression only",
        ),
        ({"delimiter": ", "}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
    ],
)
def test_options_that_contradict_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        table(tmp_path, "", **options)


@pytest.mark.slow
def test_half_a_million_rows_are_read_in_seconds(tmp_path: Path) -> None:
    rows = "50,Bonn,yes\n35,Köln,no\n" * 250_000
    inputs, _ = table(tmp_path, "age,town,ill\n" + rows).load().tensors  # type: ignore[union-attr]
    assert inputs.shape == (500_000, 4)
    assert torch.equal(inputs[:2], inputs[-2:])
