"""Arrays in files of their own: read where they stand, record by record."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from numpy.lib import format as npy

from dppipe.data import Npy, Npz
from dppipe.data.base import Splits
from dppipe.data.splitting.parts import Split, take
from dppipe.errors import DppipeError
from dppipe.learners.records.reading import RecordReader


def written(folder: Path, *, records: int = 40, **changes: Any) -> Npy:
    folder.mkdir(exist_ok=True)
    drawn = numpy.random.default_rng(0)
    arrays = {
        "x": drawn.normal(size=(records, 2, 3)),
        "y": drawn.integers(0, 4, records),
    } | changes
    for name, array in arrays.items():
        numpy.save(folder / f"{name}.npy", array)
    return Npy(path=folder, classes=None if arrays["y"].dtype.kind == "f" else 4)


def items(dataset: Any) -> list[list[Any]]:
    found = []
    for place in range(len(dataset)):
        found.append([torch.as_tensor(each).tolist() for each in dataset[place]])
    return found


@pytest.mark.parametrize("dtype", ["float64", "float32", ">f4", "int16", "uint8", "bool"])
@pytest.mark.parametrize("classes", [4, 2, None])
def test_records_and_splits_are_those_of_the_same_arrays_in_an_archive(
    tmp_path: Path, dtype: str, classes: int | None
) -> None:
    drawn = numpy.random.default_rng(1)
    x = (10 * drawn.random((30, 2, 3))).astype(dtype)
    y = drawn.integers(0, classes, 30) if classes else drawn.normal(size=(30, 2))
    data = written(tmp_path, x=x, y=y).model_copy(update={"classes": classes})
    numpy.savez(tmp_path / "d.npz", x=x, y=y)
    archive = Npz(path=tmp_path / "d.npz", classes=classes)
    assert (data.count(), data.input_shape, data.outputs, data.task) == (
        archive.count(),
        archive.input_shape,
        archive.outputs,
        archive.task,
    )
    for by in ("position", "hash"):
        ours, theirs = data.splits(seed=5, by=by), archive.splits(seed=5, by=by)
        assert [items(part) for part in ours] == [items(part) for part in theirs]


def test_a_record_that_cant_be_used_contributes_nothing_and_keeps_its_place(tmp_path: Path) -> None:
    x = numpy.ones((6, 2, 3))
    x[1, 0, 0], x[2, 1, 1] = numpy.nan, 1e300
    data = written(tmp_path, x=x, y=numpy.array([0, 1, 2, 4, -1, 3]))
    dataset: Any = data.load()
    read = RecordReader(dataset).read(numpy.arange(6))
    assert (len(dataset), read.broken) == (6, 4)
    assert read.parts[0][1].tolist() == [0, 3]
    refusing = data.model_copy(update={"on_bad_record": "refuse"})
    with pytest.raises(DppipeError, match=r"dataset\[1\]: expected a record that can be read"):
        refusing.splits(seed=0)


def test_a_part_of_a_part_has_the_records_that_were_taken(tmp_path: Path) -> None:
    dataset: Any = written(tmp_path).load()
    part: Any = take(take(dataset, numpy.arange(10, 40)), numpy.array([0, 5, 29]))
    assert items(part) == [items(dataset)[place] for place in (10, 15, 39)]


def test_a_file_that_is_cut_off_during_a_run_ends_nothing(tmp_path: Path) -> None:
    dataset: Any = written(tmp_path).load()
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[: len(whole) // 2])
    read = RecordReader(dataset).read(numpy.arange(40))
    assert 15 <= read.broken < 25
    (tmp_path / "x.npy").unlink()
    assert RecordReader(dataset).read(numpy.arange(40)).broken == 40


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": numpy.zeros(39, dtype=int)}, "a target for each input"),
        ({"y": numpy.zeros((40, 2, 2))}, r"floats of shape \[records\]"),
        ({"x": numpy.zeros(40)}, r"numbers of shape \[records, ...\]"),
        ({"x": numpy.array(["a"] * 40)}, "numbers of shape"),
        ({"x": numpy.asfortranarray(numpy.zeros((40, 3)))}, "Fortran order"),
        ({"x": numpy.zeros((40, 0))}, "numbers of shape"),
    ],
)
def test_arrays_that_dont_fit_are_refused_before_a_record_is_read(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    data = written(tmp_path, **changes)
    for ask in (data.check_files, data.load):
        with pytest.raises(DppipeError, match=message):
            ask()


def test_damaged_and_missing_files_are_named(tmp_path: Path) -> None:
    data = written(tmp_path)
    whole = (tmp_path / "y.npy").read_bytes()
    for content, message in ((whole[:-1], "as the header announces"), (b"no", "numpy.save")):
        (tmp_path / "y.npy").write_bytes(content)
        with pytest.raises(DppipeError, match=rf"y\.npy: expected .*{message}"):
            data.count()
    (tmp_path / "y.npy").unlink()
    with pytest.raises(DppipeError, match=r"data\.path: expected a file, got .*y\.npy"):
        data.check_files()


def test_integers_without_classes_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(DppipeError, match="number of classes"):
        written(tmp_path).model_copy(update={"classes": None}).check_files()


def test_a_second_folder_has_the_test_records(tmp_path: Path) -> None:
    written(tmp_path / "test", records=7)
    data = written(tmp_path / "train").model_copy(
        update={"test_path": tmp_path / "test", "split": Split(train=0.5, val=0.5, test=0)}
    )
    splits = data.splits(seed=0)
    assert isinstance(splits, Splits)
    assert [len(part) for part in splits] == [20, 20, 7]  # type: ignore[arg-type]
    assert data.record_files() == [tmp_path / "train" / "x.npy", tmp_path / "train" / "y.npy"]
    written(tmp_path / "test", x=numpy.zeros((40, 5)))
    with pytest.raises(DppipeError, match=r"records of shape \[2, 3\]"):
        data.check_files()
    with pytest.raises(ValueError, match=r"split\.test to be 0 beside test_path"):
        Npy(path=tmp_path, test_path=tmp_path)


def test_private_statistics_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="read one by one"):
        Npy.from_data({"path": str(tmp_path), "normalize": {"kind": "private"}})
    with pytest.raises(ValueError, match="release of their own"):
        Npy.from_data({"path": str(tmp_path), "normalize": "fit"})


SPARSE = """
import resource, sys
import dppipe.cli
status = 0
try:
    dppipe.cli.main()
except SystemExit as end:
    status = end.code
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("status", status, "peak", peak, flush=True)
"""
SPEC = """
version: 1
name: sparse
data: {kind: npy, path: ".", classes: 10, holdout: public, split: {train: 0.9999, val: 0.0001, test: 0}}
model: logistic
optimizer: sgd
sampler: {kind: poisson, expected_batch_size: 256}
budget: {epsilon: 3.0, delta: 1.0e-9}
train: {steps: 20}
"""


@pytest.mark.slow
def test_fifty_gigabytes_are_trained_on_within_one(tmp_path: Path) -> None:
    records = 50 * 10**9 // (3 * 32 * 32 * 4)
    shapes = {"x": ((records, 3, 32, 32), "<f4"), "y": ((records,), "<i8")}
    for name, (shape, dtype) in shapes.items():
        with (tmp_path / f"{name}.npy").open("wb") as file:
            header = {"descr": dtype, "fortran_order": False, "shape": shape}
            npy.write_array_header_1_0(file, header)
            size = numpy.dtype(dtype).itemsize * int(numpy.prod(shape))
            file.truncate(file.tell() + size)
    (tmp_path / "spec.yaml").write_text(SPEC)
    done = subprocess.run(
        [sys.executable, "-c", SPARSE, "run", "spec.yaml", "--run-dir", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.splitlines()[-1].split()
    assert last[:2] == ["status", "0"], done.stdout + done.stderr
    assert int(last[3]) < 10**6  # in kilobytes
