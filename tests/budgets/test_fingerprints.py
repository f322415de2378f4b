"""Fingerprints depend on the training records, not on the test file, the split or other options."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import dp_accounting
import pytest

from dppipe.budgets.fingerprints import _earlier_contents, data_contents, fingerprints
from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.budgets.unscoped import unscoped_warning
from dppipe.data.csv import Csv
from dppipe.data.digits import Digits
from dppipe.data.idx import Idx
from dppipe.data.synthetic import Synthetic
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.filters.filters import Commitment

EVENT = dp_accounting.GaussianDpEvent(5.0)


def table(path: Path, **options: Any) -> Csv:
    given = {
        "path": str(path),
        "records": 2,
        "numeric": [{"column": "age"}],
        "target": {"column": "ill", "classes": [0, 1]},
    }
    return Csv.from_data(given | options)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("age,ill\n30,0\n40,1\n")
    (tmp_path / "test.csv").write_text("age,ill\n50,0\n60,1\n")
    return tmp_path


def test_a_test_file_and_a_split_make_no_other_records(files: Path) -> None:
    alone = table(files / "a.csv")
    tested = table(
        files / "a.csv",
        test_path=str(files / "test.csv"),
        split={"train": 1.0, "val": 0.0, "test": 0.0},
    )
    assert data_contents(alone) == data_contents(tested)
    assert data_contents(alone) != data_contents(table(files / "test.csv"))


def test_of_an_idx_folder_only_the_training_files_count(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
            (tmp_path / folder / name).write_text(name)
    (tmp_path / "two" / "README").write_text("hello")
    assert data_contents(Idx(root=tmp_path / "one")) == data_contents(Idx(root=tmp_path / "two"))


@pytest.mark.parametrize("changed", ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"])
def test_a_data_set_is_another_one_if_any_of_its_training_files_is(
    tmp_path: Path, changed: str
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
            (tmp_path / folder / name).write_text(name)
    (tmp_path / "two" / changed).write_text("other records")
    store = Store(tmp_path / "budgets.db")
    first, second = (fingerprints(store, Idx(root=tmp_path / folder)) for folder in ("one", "two"))
    assert not set(first) & set(second)


def test_records_without_a_file_are_known_by_what_makes_them() -> None:
    split = {"train": 0.5, "val": 0.0, "test": 0.0}
    assert data_contents(Digits()) == data_contents(
        Digits.from_data({"holdout": "public", "split": split})
    )
    assert data_contents(Synthetic(size=100)) != data_contents(Synthetic(size=101))
    assert data_contents(Digits()) != data_contents(Synthetic(size=100))


def charge(store: Store, *marks: str, scope: str = "clinic") -> None:
    one = Commitment([(EVENT, 1)], "zero_out", "example", 0.5, 1e-7)
    store.reserve(
        scope, f"run in {scope}", one, run_dir="runs/a", plan_hash="ab", fingerprints=marks
    )


def test_records_that_an_earlier_version_has_noted_are_still_recognised(
    files: Path, place: str
) -> None:
    """It noted all files of the options, the test file too."""
    store = Store(place)
    for name in ("clinic", "ward"):
        store.create(Scope.make(name, epsilon=2.0, delta=1e-5, order=8.0))
    tested = table(
        files / "a.csv",
        test_path=str(files / "test.csv"),
        split={"train": 1.0, "val": 0.0, "test": 0.0},
    )
    charge(store, store.fingerprint(_earlier_contents(tested)))
    with pytest.raises(PrivacyRefusal, match="'clinic', which this very data set is charged to"):
        charge(store, *fingerprints(store, tested), scope="ward")
    warning = unscoped_warning(tested, private=True, place=place)
    assert warning is not None
    assert "'clinic'" in warning


def test_a_renamed_file_with_a_new_test_file_is_warned_of(files: Path, place: str) -> None:
    store = Store(place)
    store.create(Scope.make("clinic", epsilon=2.0, delta=1e-5, order=8.0))
    assert unscoped_warning(table(files / "a.csv"), private=True, place=place) is None
    charge(store, *fingerprints(store, table(files / "a.csv")))
    shutil.copy(files / "a.csv", files / "b.csv")
    split = {"train": 1.0, "val": 0.0, "test": 0.0}
    copied = table(files / "b.csv", test_path=str(files / "test.csv"), split=split)
    assert "`scope: clinic`" in (unscoped_warning(copied, private=True, place=place) or "")
    assert unscoped_warning(table(files / "test.csv"), private=True, place=place) is None
    assert unscoped_warning(table(files / "nowhere.csv"), private=True, place=place) is None


def test_a_file_that_was_changed_is_read_again(files: Path) -> None:
    before = data_contents(table(files / "a.csv"))
    (files / "a.csv").write_text("age,ill\n30,0\n41,1\n55,1\n")
    assert data_contents(table(files / "a.csv")) != before
