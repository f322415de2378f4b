"""Where a run directory was made, so that a copy of it can't be resumed beside the original.

Two copies that both went on would each spend what is left, and neither ledger would know of the other. So a run remembers
the place and the inode of its ledger, when its plan was written, by a time that no copying program can set, and the files that
its data came from by their places and times, never by their contents or sizes, which would tell the number of records. What
this can't see is a whole file system, or a whole machine, that was set back to an earlier state.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dppipe.budgets.fingerprints import data_files
from dppipe.component import Component
from dppipe.errors import PrivacyRefusal
from dppipe.runs.directory import RunDirectory, write_json


def remember_origin(run: RunDirectory, *, data: Component | None, spec: str | None = None) -> None:
    """Note the run's id, place and start, its data's files and its first spec; the ledger must be there already."""
    before = _read(run)
    known: dict[str, Any] = {
        "run": before.get("run") or secrets.token_hex(16),
        "begun": before.get("begun") if before else utc_now(),
        "starts": before.get("starts", 1) + 1 if before else 1,
        "ledger": _place(run.ledger),
        "plan": _written(run.plan),
        "data": list(map(_identity, data_files(data))),
    }
    write_json(_path(run), known | {"spec": spec if spec is not None else first_spec(run)})


def dates(run: RunDirectory) -> dict[str, Any]:
    """Return when a run first started, in UTC, and how many times it was started or resumed."""
    known = _read(run)
    return {"begun": known.get("begun"), "starts": known.get("starts", 1)}


def utc_now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_spec(run: RunDirectory) -> str | None:
    """Give the text of the spec that a run began with, as far as it is known."""
    spec = _read(run).get("spec")
    return spec if isinstance(spec, str) else None


def check_origin(run: RunDirectory, *, data: Component | None, original_is_gone: bool) -> None:
    """Refuse a run directory that was copied or moved, and data files that were changed since the run began.

    Guarantee: of all copies of a directory on one machine, only the one in which the run began goes on; another one only if
    the user says that the original is gone, and if it is not to be found. Where nothing is charged yet, a copy is as good as a
    new run, and a crash may have come before the origin was noted.
    """
    if not run.ledger.stat().st_size and not _path(run).exists():
        return
    known = _read(run)
    moved = known.get("ledger") != _place(run.ledger) or known.get("plan") != _written(run.plan)
    if moved and not original_is_gone:
        way = "--original-is-gone"
        if not run.config.exists():
            way = f"RunDirectory.open({str(run.path)!r}, original_is_gone=True)"
        raise PrivacyRefusal(
            f"{run.path}: expected the directory in which the run began, got a copy, a moved one, or one that was put back. If "
            f"two copies went on, each would spend what is left. If the original is gone for good, say so by {way}."
        )
    if moved and (original := _still_there(known.get("ledger"), run)):
        raise PrivacyRefusal(
            f"{original}: expected the original to be gone, got its ledger. Resume it there, or delete it."
        )
    before = known.get("data")
    if not isinstance(before, list):
        raise PrivacyRefusal(
            f"{_path(run)}: expected to find what data the run began with, got nothing that says so."
        )
    _check_data(before, data_files(data), moved=moved)


def _check_data(before: list[Any], files: list[Path], *, moved: bool) -> None:
    """Compare the data files one by one; those of a run that was moved may have been moved as well, with their times kept."""
    kept = ("changed",) if moved else ("path", "inode", "changed")
    noted = [
        {name: entry.get(name) for name in kept} for entry in before if isinstance(entry, Mapping)
    ]
    found = [{name: _identity(file).get(name) for name in kept} for file in files]
    if noted != found:
        changed = next(
            (str(file) for file, now in zip(files, found, strict=True) if now not in noted), "data"
        )
        raise PrivacyRefusal(
            f"{changed}: expected the data that the run began with, got files that changed since. "
            "Put them back with their times, or start a new run."
        )


def _still_there(place: Any, run: RunDirectory) -> Path | None:
    """Find a run of this very plan where the original stood, be it the original or a copy that was put there."""
    original = (
        Path(place["path"])
        if isinstance(place, dict) and isinstance(place.get("path"), str)
        else run.ledger
    )
    try:
        there = (
            original != run.ledger
            and original.exists()
            and original.with_name(run.plan.name).read_bytes()
        )
    except (OSError, ValueError):
        return None
    return original.parent if there == run.plan.read_bytes() else None


def _path(run: RunDirectory) -> Path:
    return run.path / "origin.json"


def _read(run: RunDirectory) -> dict[str, Any]:
    try:
        known = json.loads(_path(run).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _place(ledger: Path) -> dict[str, Any]:
    try:
        return {
            "path": str(ledger.resolve()),
            "inode": ledger.stat().st_ino,
        }  # its times change with every charge
    except OSError:
        return {}


def _written(plan: Path) -> dict[str, Any]:
    """Give when the plan's inode was last changed: inodes are used again, these times can't be set back."""
    stat = plan.stat()
    return {"inode": stat.st_ino, "changed": stat.st_ctime_ns}


def _identity(file: Path) -> dict[str, Any]:
    try:
        stat = file.stat()
    except OSError:
        return {}  # gone: like nothing that was noted
    return {"path": str(file.resolve()), "inode": stat.st_ino, "changed": stat.st_mtime_ns}
