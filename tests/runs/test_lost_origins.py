"""A lost or damaged origin: a run that has charged something never goes on without it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dppipe.data.idx import Idx
from dppipe.errors import PrivacyRefusal
from dppipe.runs.directory import RunDirectory
from dppipe.runs.origin import check_origin, remember_origin

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
DAMAGES: dict[str, bytes | None] = {
    "gone": None,
    "empty": b"",
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"run"',
    "nothing in it": b"{}",
    "too deep": b"[" * 100_000,
}
ROWS = {"nothing charged": "", "charged": "a row\n", "a torn row": "{"}


@pytest.fixture
def data(tmp_path: Path) -> Idx:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(name)
    return Idx(root=folder)


def begun(folder: Path, data: Idx, *, rows: str = "a row\n") -> RunDirectory:
    run = RunDirectory.create("t", run_dir=folder)
    run.plan.write_text("{}")
    run.ledger.write_text(rows)
    remember_origin(run, data=data)
    return run


def origin(run: RunDirectory) -> Path:
    return run.path / "origin.json"


def goes_on(run: RunDirectory, data: Idx, *, gone: bool = False) -> bool:
    try:
        check_origin(run, data=data, original_is_gone=gone)
    except PrivacyRefusal:
        return False
    return True


@pytest.mark.parametrize("gone", [False, True], ids=["", "original is gone"])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_without_its_origin_only_a_run_that_has_charged_nothing_goes_on(
    tmp_path: Path,
    data: Idx,
    damage: bytes | None,
    rows: str,
    gone: bool,
) -> None:
    run = begun(tmp_path / "run", data, rows=rows)
    assert goes_on(run, data, gone=gone)
    origin(run).unlink()
    if damage is not None:
        origin(run).write_bytes(damage)
    assert goes_on(run, data, gone=gone) == (damage is None and not rows)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_no_copy_goes_on_beside_the_original_whatever_became_of_its_origin(
    tmp_path: Path,
    data: Idx,
    damage: bytes | None,
) -> None:
    run = begun(tmp_path / "run", data)
    copy = RunDirectory(Path(shutil.copytree(run.path, tmp_path / "copy")))
    for gone in (False, True):
        assert not goes_on(copy, data, gone=gone)
    origin(copy).unlink()
    if damage is not None:
        origin(copy).write_bytes(damage)
    for gone in (False, True):
        assert not goes_on(copy, data, gone=gone)
    assert goes_on(run, data)


def changed(key: str, inner: str | None, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what sets one entry of an origin, or takes it out."""

    def change(known: dict[str, Any]) -> None:
        held, name = (known, key) if inner is None else (known[key], inner)
        if value is KeyError:
            del held[name]
        else:
            held[name] = value

    return change


ENTRIES = [
    ("ledger", None),
    ("ledger", "path"),
    ("ledger", "inode"),
    ("plan", None),
    ("plan", "inode"),
    ("plan", "changed"),
]
VALUES = [KeyError, None, 0, "x", [], {}]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize(("key", "inner"), ENTRIES)
def test_each_entry_that_says_where_a_run_began_counts(
    tmp_path: Path,
    data: Idx,
    key: str,
    inner: str | None,
    value: Any,
) -> None:
    run = begun(tmp_path / "run", data)
    known = json.loads(origin(run).read_bytes())
    changed(key, inner, value)(known)
    origin(run).write_text(json.dumps(known))
    assert not goes_on(run, data)


@pytest.mark.parametrize(
    "value",
    [KeyError, None, 0, "x", {}, [], [{}], [{}, {}], [None, None]],
    ids=str,
)
def test_what_data_a_run_began_with_counts_though_the_original_is_gone(
    tmp_path: Path,
    data: Idx,
    value: Any,
) -> None:
    run = begun(tmp_path / "run", data)
    known = json.loads(origin(run).read_bytes())
    changed("data", None, value)(known)
    origin(run).write_text(json.dumps(known))
    assert not goes_on(run, data)
    assert not goes_on(run, data, gone=True)


@pytest.mark.parametrize(
    "copied",
    [shutil.copy, shutil.copy2],
    ids=["with new times", "with old times"],
)
@pytest.mark.parametrize("name", ["ledger.jsonl", "plan.json"])
def test_a_file_that_was_put_back_from_a_copy_ends_the_run(
    tmp_path: Path,
    data: Idx,
    name: str,
    copied: Callable[..., Any],
) -> None:
    run = begun(tmp_path / "run", data)
    kept = Path(copied(run.path / name, tmp_path / "kept"))
    (run.path / name).rename(tmp_path / "away")
    copied(kept, run.path / name)
    assert not goes_on(run, data)


def test_an_original_that_was_moved_goes_on_once_it_is_said_and_only_if_it_is_true(
    tmp_path: Path,
    data: Idx,
) -> None:
    run = begun(tmp_path / "run", data)
    moved = RunDirectory(run.path.rename(tmp_path / "moved"))
    assert not goes_on(moved, data)
    assert goes_on(moved, data, gone=True)
    shutil.copytree(moved.path, run.path)
    assert not goes_on(moved, data, gone=True)


def test_a_plan_that_was_written_again_is_found_though_its_times_were_set_back(
    tmp_path: Path,
    data: Idx,
) -> None:
    run = begun(tmp_path / "run", data)
    before = run.plan.stat()
    run.plan.write_bytes(run.plan.read_bytes())
    os.utime(run.plan, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = run.plan.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not goes_on(run, data)
