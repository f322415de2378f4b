"""NumPy archives: shapes and types from the headers, and how what doesn't fit is named."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from pydantic import ValidationError

from dppipe.data import Npz
from dppipe.errors import SpecError, UsageError

X = numpy.random.default_rng(0).normal(size=(12, 3, 2))
Y = numpy.arange(12) % 3


def save(folder: Path, **arrays: Any) -> dict[str, Any]:
    numpy.savez(folder / "d.npz", **arrays)
    return {"path": str(folder / "d.npz")}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_are_read_as_they_are(tmp_path: Path, compressed: bool) -> None:
    (numpy.savez_compressed if compressed else numpy.savez)(tmp_path / "d.npz", images=X, labels=Y)
    data = Npz.from_data(
        {"path": str(tmp_path / "d.npz"), "x": "images", "y": "labels", "classes": 3}
    )
    assert (data.count(), data.input_shape, data.outputs, data.task) == (
        12,
        (3, 2),
        3,
        "multiclass",
    )
    inputs, targets = data.load().tensors
    assert torch.equal(inputs, torch.from_numpy(X).float())
    assert targets.tolist() == Y.tolist()


@pytest.mark.parametrize("targets", [X[:, 0, 0], X[:, :, 0], X[:, 0, 0].astype(numpy.float32)])
def test_floats_make_a_regression(tmp_path: Path, targets: numpy.ndarray) -> None:
    data = Npz.from_data(save(tmp_path, x=X, y=targets))
    outputs = 1 if targets.ndim == 1 else targets.shape[1]
    assert (data.task, data.outputs) == ("regression", outputs)
    assert data.load().tensors[1].shape == (12, outputs)


def test_the_headers_alone_give_the_public_facts(tmp_path: Path) -> None:
    options = save(tmp_path, x=X, y=Y)
    with zipfile.ZipFile(options["path"]) as archive:
        headers = {name: archive.read(name)[:128] for name in ("x.npy", "y.npy")}
    with zipfile.ZipFile(options["path"], "w") as archive:  # records cut away: nobody may read them
        for name, header in headers.items():
            archive.writestr(name, header)
    data = Npz.from_data({**options, "classes": 3})
    assert (data.count(), data.train_count(), data.input_shape) == (12, 10, (3, 2))
    with pytest.raises(UsageError, match=r"cut off or damaged"):
        data.load()


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        (
            {"x": X, "y": Y},
            {},
            r"data\.classes: expected the number of classes, got nothing, and 'y' contains integers",
        ),
        (
            {"x": X, "y": Y / 2},
            {"classes": 3},
            r"array 'y': expected integers of shape \[records\], got float64 of shape 12",
        ),
        (
            {"x": X, "y": Y[:11]},
            {"classes": 3},
            r"array 'y': expected a target for each of 12 records, got int64 of shape 11",
        ),
        (
            {"x": X[:0], "y": Y[:0]},
            {"classes": 3},
            r"array 'x': expected numbers of shape \[records, \.\.\.\]",
        ),
        (
            {"x": X[:, 0, 0], "y": Y},
            {"classes": 3},
            r"array 'x': expected numbers of shape \[records, \.\.\.\]",
        ),
        ({"x": X.astype(str), "y": Y}, {"classes": 3}, r"array 'x': expected numbers"),
        ({"x": X.astype(object), "y": Y}, {"classes": 3}, r"array 'x': expected numbers"),
        (
            {"x": X, "y": X},
            {},
            r"array 'y': expected floats of shape \[records\] or \[records, outputs\]",
        ),
        (
            {"x": X, "z": Y},
            {"classes": 3},
            r"data\.y: expected the name of an array in .*d\.npz, got 'y', which isn't there",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_named(
    tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Npz.from_data({**save(tmp_path, **arrays), **options}).count()


@pytest.mark.parametrize("value", [numpy.nan, numpy.inf, 1e300])
def test_a_number_that_is_not_finite_is_named_by_its_record(tmp_path: Path, value: float) -> None:
    x = X.copy()
    x[4, 1, 1] = value
    with pytest.raises(UsageError, match=r"record 5: expected finite inputs"):
        Npz.from_data({**save(tmp_path, x=x, y=Y), "classes": 3}).load()
    y = X[:, 0, 0].copy()
    y[6], y[7] = value, -value
    with pytest.raises(UsageError, match=r"record 7: expected finite targets"):
        Npz.from_data(save(tmp_path, x=X, y=y)).load()


def test_a_label_out_of_range_is_named_by_its_record(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"record 3: expected a label from 0 to 1, got another"):
        Npz.from_data({**save(tmp_path, x=X, y=Y), "classes": 2}).load()


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.npz").write_bytes(b"no archive")
    with pytest.raises(UsageError, match=r"d\.npz: expected an archive written by numpy\.savez"):
        Npz.from_data({"path": str(tmp_path / "d.npz"), "classes": 3}).count()


def test_a_missing_file_is_named_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        SpecError,
        match=rf"data\.path: expected a file, got no\.npz, .* working directory {tmp_path}",
    ):
        Npz.from_data({"path": "no.npz", "classes": 3}).count()


def test_a_second_archive_holds_the_test_records(tmp_path: Path) -> None:
    for name, rows in (("a", 20), ("b", 7)):
        numpy.savez(tmp_path / f"{name}.npz", x=numpy.ones((rows, 3)), y=numpy.arange(rows) % 2)
    options: dict[str, Any] = {
        "path": str(tmp_path / "a.npz"),
        "test_path": str(tmp_path / "b.npz"),
        "classes": 2,
        "split": {"train": 0.8, "val": 0.2, "test": 0},
    }
    data = Npz.from_data(options)
    assert [len(part) for part in data.splits(seed=0)] == [16, 4, 7]  # type: ignore[arg-type]
    assert data.record_files() == [tmp_path / "a.npz"]
    with pytest.raises(ValidationError, match=r"split\.test to be 0 beside test_path"):
        Npz.from_data({**options, "split": {"train": 0.8, "val": 0.1, "test": 0.1}})
    numpy.savez(tmp_path / "b.npz", x=numpy.ones((7, 2)), y=numpy.arange(7) % 2)
    with pytest.raises(UsageError, match=r"expected arrays of the shapes of .*a\.npz"):
        data.check_files()
    (tmp_path / "b.npz").unlink()
    with pytest.raises(UsageError, match=r"data\.test_path: expected a file, got"):
        data.check_files()
