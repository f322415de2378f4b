"""Bad records: refused by their place before anything is charged, or dropped with their place kept."""

from __future__ import annotations

import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from pydantic import ValidationError
from torch.utils.data import Subset, TensorDataset

from dppipe.data import ClassPathData, Csv, Data, Idx, Npz
from dppipe.data.base import Split, Task, take
from dppipe.data.reading.record_checks import usable_part
from dppipe.data.reading.users import ids_of, with_users
from dppipe.data.reading.validity import valid_of, with_valid
from dppipe.data.tables import delimited
from dppipe.errors import UsageError

SECRET = "4711-secret"
SPLIT = {"train": 0.6, "val": 0.2, "test": 0.2}
RECORDS = 40
BAD = 11
"""The row that is bad, from 0."""


def write_csv(folder: Path, line: str | None, **options: Any) -> Csv:
    lines = [f"{row},{row % 3},{row % 2}" for row in range(RECORDS)]
    if line is not None:
        lines[BAD] = line
    (folder / "d.csv").write_text("age,town,ill\n" + "\n".join(lines) + "\n")
    given = {
        "numeric": [{"column": "age"}],
        "categorical": [{"column": "town", "values": ["0", "1"]}],
        "split": SPLIT,
    }
    target = {"column": "ill", "classes": ["0", "1"]}
    return Csv.from_data(
        {"path": str(folder / "d.csv"), "records": RECORDS, "target": target, **given, **options}
    )


def write_npz(
    folder: Path,
    change: Callable[[Any, Any], None] | None,
    *,
    classes: int | None = 2,
    **options: Any,
) -> Npz:
    x = numpy.arange(2.0 * RECORDS).reshape(RECORDS, 2)
    y = numpy.arange(RECORDS) % 2 if classes else numpy.arange(float(RECORDS))
    if change is not None:
        change(x, y)
    numpy.savez(folder / "d.npz", x=x, y=y)
    given = {"path": str(folder / "d.npz"), "split": SPLIT} | (
        {"classes": classes} if classes else {}
    )
    return Npz.from_data({**given, **options})


def write_idx(folder: Path, label: int | None, **options: Any) -> Idx:
    for part in ("train", "t10k"):
        images = numpy.arange(RECORDS * 4, dtype=numpy.uint8).reshape(RECORDS, 2, 2) + 1
        labels = (numpy.arange(RECORDS) % 10).astype(numpy.uint8)
        if label is not None:
            labels[BAD] = label
        (folder / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">HBBIII", 0, 8, 3, *images.shape) + images.tobytes()
        )
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">HBBI", 0, 8, 1, RECORDS) + labels.tobytes()
        )
    return Idx.from_data({"root": str(folder), "split": {"train": 0.8, "val": 0.2}, **options})


def not_finite(x: Any, y: Any) -> None:
    x[BAD, 1] = numpy.inf


def bad_label(x: Any, y: Any) -> None:
    y[BAD] = 4711


def bad_target(x: Any, y: Any) -> None:
    y[BAD] = numpy.nan


CASES: dict[str, tuple[Callable[..., Data], Any, dict[str, Any], str]] = {
    "fields": (write_csv, f"1,{SECRET}", {}, r"line 13: expected 3 fields, got 2"),
    "number": (
        write_csv,
        f"{SECRET},1,1",
        {},
        r"line 13, column 1 \(age\): expected a number, got another text",
    ),
    "nan": (write_csv, "nan,1,1", {}, r"line 13, column 1 \(age\): expected a finite number"),
    "too large": (
        write_csv,
        "1e99,1,1",
        {},
        r"line 13, column 1 \(age\): expected a finite number",
    ),
    "missing": (
        write_csv,
        ",1,1",
        {},
        r"line 13, column 1 \(age\): expected a number, got a missing value",
    ),
    "class": (
        write_csv,
        f"1,1,{SECRET}",
        {},
        r"line 13, column 3 \(ill\): expected one of the 2 classes",
    ),
    "regression": (
        write_csv,
        f"1,1,{SECRET}",
        {"target": {"column": "ill"}},
        r"line 13, column 3 \(ill\): expected a number",
    ),
    "npz input": (write_npz, not_finite, {}, r"record 12: expected finite inputs"),
    "npz label": (write_npz, bad_label, {}, r"record 12: expected a label from 0 to 1"),
    "npz target": (write_npz, bad_target, {"classes": None}, r"record 12: expected finite targets"),
    "idx label": (write_idx, 200, {}, r"record 12: expected a label from 0 to 9"),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Callable[..., Data], Any, dict[str, Any], str]:
    return CASES[request.param]


@pytest.mark.parametrize("stated", [{}, {"on_bad_record": "refuse"}], ids=["default", "refuse"])
def test_files_refuse_a_bad_record_by_its_place_and_say_that_it_is_private(
    tmp_path: Path, case: Any, stated: Any
) -> None:
    write, bad, options, message = case
    with pytest.raises(UsageError, match=message) as caught:
        write(tmp_path, bad, **options, **stated).splits(seed=0)
    assert "private record" in str(caught.value)
    assert "data.on_bad_record: drop" in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("piece", [1, 7, 50_000])
def test_a_dropped_record_keeps_its_place_and_changes_no_other(
    tmp_path: Path, case: Any, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "CHUNK", piece)
    write, bad, options, _ = case
    whole = rows_of(write(tmp_path, None, **options, on_bad_record="drop").load())
    dropped = rows_of(write(tmp_path, bad, **options, on_bad_record="drop").load())
    valid = valid_of(whole)
    assert valid is not None
    assert valid.all()
    marks = valid_of(dropped)
    assert marks is not None
    assert marks.tolist() == [row != BAD for row in range(RECORDS)]
    for before, after in zip(whole.tensors, dropped.tensors, strict=True):
        assert not after[BAD].any()
        assert torch.equal(before[marks], after[marks])
        assert before.dtype == after.dtype


def rows_of(loaded: Any) -> TensorDataset:
    return loaded[0] if isinstance(loaded, tuple) else loaded


def test_the_split_by_position_stays_and_scores_leave_the_dropped_record_out(
    tmp_path: Path, case: Any
) -> None:
    write, bad, options, _ = case
    parts = [0, 0, 0]
    for seed in (0, 6, 13):
        whole = write(tmp_path, None, **options, on_bad_record="drop").splits(seed=seed)
        dropped = write(tmp_path, bad, **options, on_bad_record="drop").splits(seed=seed)
        assert len(dropped.train) == len(whole.train)  # type: ignore[arg-type]
        lost = 0
        for index, (before, after) in enumerate(zip(whole, dropped, strict=True)):
            assert isinstance(before, TensorDataset)
            assert isinstance(after, TensorDataset)
            marks = valid_of(after)
            assert marks is not None
            if after is not dropped.train:
                assert marks.all()
                gone = len(before) - len(after)
            else:
                gone = int((~marks).sum())
            lost += gone
            parts[index] += gone
        assert lost == (
            2 if isinstance(write(tmp_path, None), Idx) else 1
        )  # idx: the test file has a bad record too
    assert all(parts)  # with these seeds the bad record falls into each part


def test_a_record_that_was_dropped_moves_no_other_under_add_remove(
    tmp_path: Path, case: Any
) -> None:
    write, bad, options, _ = case
    whole = write(tmp_path, None, **options, on_bad_record="drop").splits(seed=1, by="hash")
    dropped = write(tmp_path, bad, **options, on_bad_record="drop").splits(seed=1, by="hash")
    lost = 0
    for before, after in zip(whole, dropped, strict=True):
        kept = {tuple(row[0].flatten().tolist()) for row in after}  # type: ignore[union-attr]
        had = {tuple(row[0].flatten().tolist()) for row in before}  # type: ignore[union-attr]
        assert kept <= had
        lost += len(had - kept)
    assert lost == (2 if isinstance(write(tmp_path, None), Idx) else 1)


def test_a_line_with_missing_fields_is_dropped_although_empty_texts_would_do(
    tmp_path: Path,
) -> None:
    target = {"column": "ill", "classes": ["", "1", "0"]}
    data = write_csv(
        tmp_path, "1", target=target, numeric=[{"column": "age", "fill": 5}], on_bad_record="drop"
    )
    marks = valid_of(rows_of(data.load()))
    assert marks is not None
    assert marks.tolist() == [row != BAD for row in range(RECORDS)]


def test_a_fill_and_unlisted_words_are_no_faults(tmp_path: Path) -> None:
    data = write_csv(
        tmp_path, "?,elsewhere,1", numeric=[{"column": "age", "fill": 5}], on_bad_record="drop"
    )
    loaded = rows_of(data.load())
    assert loaded.tensors[0][BAD].tolist() == [5, 0, 0]
    marks = valid_of(loaded)
    assert marks is not None
    assert marks.all()


def test_dropped_records_stay_with_their_users(tmp_path: Path) -> None:
    data = write_csv(tmp_path, "x,1,1", on_bad_record="drop", user="town", users=3, categorical=[])
    ids = ids_of(data.load())  # type: ignore[arg-type]
    assert ids is not None
    assert ids.tolist() == [str(row % 3) if row != BAD else "1" for row in range(RECORDS)]


def test_a_line_whose_user_cannot_be_told_is_refused_although_others_are_dropped(
    tmp_path: Path,
) -> None:
    data = write_csv(
        tmp_path, f"1,{SECRET}", on_bad_record="drop", user="town", users=3, categorical=[]
    )
    with pytest.raises(
        UsageError, match=r"line 13: expected 3 fields, got 2\..*nobody can tell whose record it is"
    ) as caught:
        data.load()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text", [b'age,town,ill\n1,"4711-secret,1\n', b"age,town,ill\n1,\xff4711-secret,1\n"]
)
def test_a_file_that_is_no_table_is_refused_in_any_case(tmp_path: Path, text: bytes) -> None:
    data = write_csv(tmp_path, None, on_bad_record="drop")
    (tmp_path / "d.csv").write_bytes(text)
    with pytest.raises(UsageError, match="private record") as caught:
        data.load()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_parts_carry_users_and_validity_in_any_form() -> None:
    dataset = TensorDataset(torch.arange(6.0))
    with_users(dataset, list("abcabc"))
    with_valid(dataset, [True, False, True, True, True, False])
    part = take(dataset, numpy.array([4, 1, 5]))
    assert part.users == ["b", "b", "c"]  # type: ignore[attr-defined]
    marks = valid_of(part)
    assert marks is not None
    assert marks.tolist() == [False, True, False]
    view = take(Subset(dataset, range(6)), numpy.array([0]))
    assert valid_of(view) is None


@pytest.mark.parametrize("valid", ["yes", 3, True, numpy.arange(6.0), [1, 2]])
def test_an_attribute_of_another_meaning_is_no_mark(valid: Any) -> None:
    dataset = TensorDataset(torch.arange(6.0))
    dataset.valid = valid  # type: ignore[attr-defined]
    assert valid_of(dataset) is None
    take(dataset, numpy.array([0, 2]))


def test_marks_must_be_as_many_as_records() -> None:
    with pytest.raises(UsageError, match="a bool for each record in `valid`"):
        valid_of(with_valid(TensorDataset(torch.arange(6.0)), [True]))


OWN = """
import torch

class Pairs:
    def __init__(self, bad=(), fault="raise", size=200):
        self.bad, self.fault, self.size = set(bad), fault, size
        self.whose = [row // 4 for row in range(size)]
        self.read = []
    def __len__(self):
        return self.size
    def __getitem__(self, i):
        self.read.append(i)
        x, y = torch.full((3,), float(i)), i % 4
        if i not in self.bad:
            return x, y
        if self.fault == "raise":
            raise ValueError("4711-secret")
        return {"shape": (x[:2], y), "nan": (x / 0 * 0, y), "range": (x, 4711), "low": (x, -1), "pair": x}[self.fault]
"""
FAULTS = {
    "raise": r"expected a record that can be read, got ValueError at own_pairs\.py:17",
    "shape": r"expected an input of shape \[3\], got another",
    "nan": "expected finite inputs",
    "range": "expected a target from 0 to 3, got another",
    "low": "expected a target from 0 to 3, got another",
    "pair": r"expected an item \(input, target\)",
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ClassPathData]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_pairs.py").write_text(OWN)

    def make(*, options: dict[str, Any] | None = None, **init_args: Any) -> ClassPathData:
        stated = {
            "input_shape": [3],
            "outputs": 4,
            "task": "multiclass",
            "split": SPLIT,
            "init_args": init_args,
        }
        return ClassPathData.from_data(
            {"class_path": "own_pairs.Pairs", **stated, **(options or {})}
        )

    yield make
    sys.modules.pop("own_pairs", None)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("row", [0, 150])
def test_a_class_of_ones_own_refuses_by_the_records_index_where_it_is_asked_to(
    own: Any, fault: str, row: int
) -> None:
    message = rf"data: dataset\[{row}\]: {FAULTS[fault]}.*private record"
    with pytest.raises(UsageError, match=message) as caught:
        own(bad=[row, 190], fault=fault, options={"on_bad_record": "refuse"}).splits(seed=0)
    assert "4711" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("by", ["position", "hash"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("row", [0, 150])
def test_a_class_of_ones_own_drops_by_default_and_no_record_moves_another(
    own: Any, fault: str, row: int, by: Any
) -> None:
    whole, broken = own().splits(seed=2, by=by), own(bad=[row], fault=fault).splits(seed=2, by=by)
    for before, after in zip(whole, broken, strict=True):
        kept = set(after.indices) - {row}
        assert kept == set(before.indices) - {row}
    if by == "position":
        assert [part.indices for part in whole] == [part.indices for part in broken]
    if fault == "raise" and by == "hash":
        assert not any(row in part.indices for part in broken)


@pytest.mark.parametrize("fault", FAULTS)
def test_scores_leave_out_the_bad_records_of_a_class_of_ones_own(own: Any, fault: str) -> None:
    data = own(bad=[3, 150], fault=fault)
    assert usable_part(data.load(), data).indices == [
        row for row in range(200) if row not in (3, 150)
    ]
    refusing = own(options={"on_bad_record": "refuse"})
    dataset = refusing.load()
    assert usable_part(dataset, refusing) is dataset  # `splits` has read them all


def test_the_first_records_show_a_mistake_of_the_class_and_one_bad_record_does_not(
    own: Any,
) -> None:
    dataset = own(bad=list(range(99))).load()
    assert dataset.read == list(range(100))
    assert own().load().read == [0]
    with pytest.raises(
        UsageError, match=r"own_pairs\.Pairs failed: ValueError at own_pairs\.py:17"
    ):
        own(bad=list(range(100))).load()


def test_users_of_a_class_of_ones_own_are_named_by_their_attribute(own: Any) -> None:
    data = own(options={"user": "whose"})
    assert data.by_users
    for by in ("position", "hash"):
        splits = data.splits(seed=0, by=by)
        owners = [{row // 4 for row in part.indices} for part in splits]
        assert sum(map(len, owners)) == len(set.union(*owners)) == 50
    with pytest.raises(UsageError, match="says whose each record is"):
        own(options={"user": "nowhere"}).splits(seed=0)
    with pytest.raises(ValidationError, match="A Data class knows its own users"):
        ClassPathData.from_data({"class_path": "own_pairs.Pairs", "user": "whose"})


class Plugged(Data, kind="plugged"):
    """A kind that doesn't check its records."""

    @property
    def task(self) -> Task:
        return "regression"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (1,)

    @property
    def outputs(self) -> int:
        return 1

    def load(self) -> TensorDataset:
        column = torch.arange(50.0)[:, None]
        column[BAD] = torch.nan
        return TensorDataset(column, torch.zeros(50, 1))


def test_a_plugins_records_in_memory_are_checked_alike() -> None:
    with pytest.raises(UsageError, match=r"data: dataset\[11\]: expected finite inputs"):
        Plugged(on_bad_record="refuse").splits(seed=0)
    data = Plugged(split=Split(train=0.4, val=0.6, test=0))
    splits = data.splits(seed=0)
    val = splits.val
    assert val is not None
    scored = usable_part(val, data)
    assert all(torch.isfinite(row[0]).all() for row in scored)  # type: ignore[attr-defined]
    assert len(scored) in (29, 30)  # type: ignore[arg-type]
    empty = TensorDataset(torch.zeros(0, 1), torch.zeros(0, 1))
    assert len(usable_part(empty, data)) == 0  # type: ignore[arg-type]
