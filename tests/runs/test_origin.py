"""The origin of a run: it goes on only with the data files that it began with, all of them."""

from __future__ import annotations

import os

import pytest

from dppipe.data.idx import Idx
from dppipe.errors import PrivacyRefusal
from dppipe.runs.directory import RunDirectory
from dppipe.runs.origin import check_origin, remember_origin

FILES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"]


@pytest.fixture
def begun(tmp_path):
    """A run that has charged something, and its data of two files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(name)
    run = RunDirectory.create("t", run_dir=tmp_path / "run")
    run.plan.write_text("{}")
    run.ledger.write_text("a row\n")
    data = Idx(root=folder)
    remember_origin(run, data=data)
    return run, data


def test_a_run_goes_on_with_the_files_that_it_began_with(begun):
    run, data = begun
    check_origin(run, data=data, original_is_gone=False)


@pytest.mark.parametrize("name", FILES)
def test_a_run_whose_files_have_changed_is_refused_whichever_it_is(begun, name):
    run, data = begun
    file = data.root / name
    file.write_text("other records")
    os.utime(file, ns=(1, 1))
    with pytest.raises(PrivacyRefusal, match=f"{name}: expected the data that the run began with"):
        check_origin(run, data=data, original_is_gone=False)


@pytest.mark.parametrize("name", FILES)
def test_a_run_that_was_moved_is_refused_if_any_of_its_files_has_changed(begun, name):
    run, data = begun
    moved = RunDirectory(run.path.rename(run.path.with_name("moved")))
    check_origin(moved, data=data, original_is_gone=True)
    os.utime(data.root / name, ns=(1, 1))
    with pytest.raises(PrivacyRefusal, match=name):
        check_origin(moved, data=data, original_is_gone=True)
