"""Table files: two readers of delimited text agree, and parquet holds the same table."""

from __future__ import annotations

import datetime
import traceback
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dppipe.data import Csv, Parquet
from dppipe.data.tables.delimited import DelimitedFile, Layout
from dppipe.errors import SpecError, UsageError

SECRET = "4711-secret"
OPTIONS: dict[str, Any] = {
    "numeric": [{"column": "age", "lower": 0, "upper": 100, "fill": 50, "indicator": True}],
    "categorical": [{"column": "town", "values": ["Ulm", "Bonn"], "absent": "category"}],
    "boolean": [{"column": "smokes"}],
    "date": [{"column": "seen", "earliest": "2020-01-01", "latest": "2022-01-01"}],
    "target": {"column": "ill", "classes": ["no", "yes"]},
}
COLUMNS = {("data", "a"): "a", ("data", "b"): "b"}
plain = st.text(st.characters(codec="utf-8", exclude_characters='"\r\n,\x00'), max_size=6)


def blocks_of(file: DelimitedFile, monkeypatch: pytest.MonkeyPatch, *, fast: bool) -> list[Any]:
    with monkeypatch.context() as patched:
        if not fast:
            patched.setattr(DelimitedFile, "_fast", _stumble)
        found = list(file.blocks(COLUMNS, misfit_notice=None))
    joined = []
    for place in range(2):
        texts: list[str] = []
        for block in found:
            texts += [text.strip() for text in block.values[place].to_pylist()]
        joined.append(texts)
    broken = [block.first + row for block in found for row in block.broken]
    return [joined, broken]


def _stumble(*args: Any, **kwargs: Any) -> Any:
    raise ValueError


lines = st.lists(
    st.one_of(
        st.tuples(plain, plain).map(",".join),
        st.tuples(plain, plain, plain).map(",".join),
        st.sampled_from(["", " ", 'x,"quoted, with a comma"', "a, b ", "\u2028,x"]),
    ),
    max_size=12,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None
)
@given(rows=lines, ending=st.sampled_from(["\n", "\r\n"]), named=st.booleans(), last=st.booleans())
def test_the_fast_reader_and_the_strict_one_read_the_same_rows(
    tmp_path, monkeypatch, rows, ending, named, last
):
    text = ending.join([*(["a,b"] if named else []), *rows]) + (ending if last else "")
    (tmp_path / "t.csv").write_bytes(text.encode())
    layout = Layout(",", None if named else ("a", "b"), "")
    file = DelimitedFile(tmp_path / "t.csv", layout, "path")
    try:
        strict = blocks_of(file, monkeypatch, fast=False)
    except UsageError:
        with pytest.raises(UsageError):
            blocks_of(file, monkeypatch, fast=True)
    else:
        assert blocks_of(file, monkeypatch, fast=True) == strict


def test_a_quotation_mark_in_the_middle_loses_and_repeats_no_row(tmp_path, monkeypatch):
    rows = [f"{number},{number}" for number in range(600_000)]
    rows[500_000] = '500000,"5,000"'
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(rows))
    file = DelimitedFile(tmp_path / "t.csv", Layout(",", None, ""), "path")
    (first, second), broken = blocks_of(file, monkeypatch, fast=True)
    assert first == [str(number) for number in range(600_000)]
    assert second[500_000] == "5,000"
    assert not broken


def test_a_line_of_a_fault_is_right_behind_blank_and_quoted_lines(tmp_path):
    text = 'age,town,smokes,seen,ill\n1,"a\nb",no,2020-01-01,no\n\n2,a,perhaps,2020-01-01,no\n'
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=r"line 5, column 3 \(smokes\): expected yes or no"):
        Csv.from_data({"path": str(tmp_path / "t.csv"), **OPTIONS}).load()


def write_both(folder: Path, rows: list[tuple[Any, ...]]) -> tuple[Csv, Parquet]:
    ages, towns, smokes, seen, ill = (list(column) for column in zip(*rows, strict=True))
    table = pyarrow.table(
        {
            "age": pyarrow.array(ages, pyarrow.int32()),
            "town": pyarrow.array(towns, pyarrow.string()).dictionary_encode(),
            "smokes": smokes,
            "seen": seen,
            "ill": ill,
        }
    )
    parquet.write_table(table, folder / "t.parquet", row_group_size=7)
    text = ["age,town,smokes,seen,ill"]
    for row in rows:
        text.append(",".join("" if value is None else str(value) for value in row))
    (folder / "t.csv").write_text("\n".join(text))
    data = Csv.from_data({"path": str(folder / "t.csv"), **OPTIONS})
    return data, Parquet.from_data({"path": str(folder / "t.parquet"), **OPTIONS})


row = st.tuples(
    st.none() | st.integers(-20, 200),
    st.none() | st.sampled_from(["Ulm", "Bonn", "Rom"]),
    st.booleans(),
    st.dates(datetime.date(2019, 1, 1), datetime.date(2023, 1, 1)),
    st.sampled_from(["no", "yes"]),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)
@given(rows=st.lists(row, min_size=1, max_size=20))
def test_a_table_is_the_same_as_text_and_as_parquet(tmp_path, rows):
    text, columns = write_both(tmp_path, rows)
    assert text.input_shape == columns.input_shape == (1 + 3 + 1 + 1 + 1,)
    for left, right in zip(text.load().tensors, columns.load().tensors, strict=True):
        assert torch.equal(left, right)
    assert columns.count() == len(rows)


def test_codes_are_numbers_of_categories_and_zero_for_none(tmp_path):
    options = {**OPTIONS, "categories": "codes"}
    rows = "age,town,smokes,seen,ill\n1,Bonn,no,2020-01-01,no\n1,Rom,no,2020-01-01,no\n1,,no,2020-01-01,no\n"
    (tmp_path / "t.csv").write_text(rows)
    data = Csv.from_data({"path": str(tmp_path / "t.csv"), **options})
    inputs, _ = data.load().tensors
    assert inputs[:, 1].tolist() == [2, 0, 3]
    assert data.inputs.category_counts == {1: 3}
    assert inputs.shape[1] == data.input_shape[0]


def small(folder: Path) -> Path:
    table = pyarrow.table(
        {
            "age": [1, 2],
            "town": ["Ulm", SECRET],
            "smokes": [True, False],
            "seen": [datetime.date(2020, 1, 1)] * 2,
            "ill": ["no", "yes"],
            "list": [[1], [2]],
        }
    )
    parquet.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-20], "expected a whole parquet file"),
        (lambda data: data[: len(data) // 2], "expected a whole parquet file"),
        (lambda data: b"", "expected a whole parquet file"),
        (lambda data: b"age,town\n", "expected a whole parquet file"),
    ],
)
def test_a_damaged_parquet_file_is_named(tmp_path, change, message):
    path = small(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UsageError, match=message) as caught:
        Parquet.from_data({"path": str(path), **OPTIONS}).load()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_value_that_cannot_be_used_is_named_by_row_and_column(tmp_path):
    options = {**OPTIONS, "categorical": [{"column": "town", "values": ["Ulm"], "other": "refuse"}]}
    with pytest.raises(UsageError, match=r"row 2, column town: expected one of the 1") as caught:
        Parquet.from_data({"path": str(small(tmp_path)), **options}).load()
    assert SECRET not in str(caught.value)


def test_with_drop_such_a_row_keeps_its_place(tmp_path):
    options = {**OPTIONS, "categorical": [{"column": "town", "values": ["Ulm"], "other": "refuse"}]}
    data = Parquet.from_data({"path": str(small(tmp_path)), **options, "on_bad_record": "drop"})
    found = data.load()
    assert numpy.asarray(found.valid).tolist() == [True, False]
    assert found.tensors[0][1].abs().sum() == 0


def test_columns_that_are_missing_or_no_numbers_are_named_by_their_keys(tmp_path):
    options = {**OPTIONS, "numeric": [{"column": "agee"}], "boolean": [{"column": "list"}]}
    data = Parquet.from_data({"path": str(small(tmp_path)), **options})
    with pytest.raises(SpecError, match="agee"):
        data.load()
    data = Parquet.from_data(
        {"path": str(small(tmp_path)), **OPTIONS, "boolean": [{"column": "list"}]}
    )
    with pytest.raises(SpecError, match="expected a column of numbers, texts or dates"):
        data.load()


def test_a_stated_number_of_records_must_be_the_files(tmp_path):
    with pytest.raises(SpecError, match="expected 2, which is how many there are, got 3"):
        Parquet.from_data({"path": str(small(tmp_path)), **OPTIONS, "records": 3}).count()


def test_the_last_part_of_a_fresh_table_is_what_a_copy_would_be(monkeypatch):
    from torch.utils.data import TensorDataset

    from dppipe.data.splitting import parts

    monkeypatch.setattr(parts, "_MOVED_AT_ONCE", 7)
    rows = torch.randn(100, 3)
    kept = TensorDataset(rows.clone(), torch.arange(100))
    fresh = TensorDataset(rows.clone(), torch.arange(100))
    fresh.is_fresh = True
    chosen = numpy.random.default_rng(0).permutation(100)[:60]
    copied = parts.take(kept, chosen)
    moved = parts.take(fresh, chosen, last=True)
    for left, right in zip(copied.tensors, moved.tensors, strict=True):
        assert torch.equal(left, right)
    assert torch.equal(kept.tensors[0], rows)


def test_a_models_raw_inputs_are_held_to_the_bounds(tmp_path):
    data = Csv.from_data(
        {
            "path": str(tmp_path / "t.csv"),
            "numeric": [{"column": "a", "lower": 0, "upper": 10}, {"column": "b", "mean": 1}],
            "categorical": [{"column": "c", "values": ["x"]}],
            "target": {"column": "y", "classes": ["0", "1"]},
        }
    )
    raw = torch.tensor([[-5.0, 3.0, 1.0], [20.0, 1.0, 0.0], [5.0, -1e9, 1.0]])
    for transform in data.public_scaling:
        raw = transform.transformed(raw)
    (tmp_path / "t.csv").write_text("a,b,c,y\n-5,3,x,0\n20,1,z,0\n5,-1e9,x,1\n")
    assert torch.equal(raw, data.load().tensors[0])


def test_bounds_are_public_facts_of_the_data():
    data = Csv.from_data({"path": "t.csv", **OPTIONS})
    assert data.public_bounds == ("age: 0 to 100", "seen: 2020-01-01 to 2022-01-01")
