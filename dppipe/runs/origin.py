"""Where a run directory was made, so that a copy of it can't be resumed beside the original.

Two copies that both went on would each spend what is left, and neither ledger would know of the
other. So `origin.json` holds:
- the path and the inode of the ledger;
- when the plan was written, by a time that no copying program can set;
- the paths and times of the data files. Their contents and sizes would tell the number of records.

A whole file system or machine that was set back to an earlier state can't be noticed.
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
from dppipe.environment import NamedPath
from dppipe.errors import PrivacyRefusal
from dppipe.runs.directory import RunDirectory, write_json


def remember_origin(
    run: RunDirectory,
    *,
    data: Component | None,
    spec: str | None = None,
    going_on: Mapping[str, Any] | None = None,
) -> None:
    """Write down the run's id, place and start, its data's files and its first spec.

    The ledger must exist already. `going_on` is what is noted of a start that isn't the first.
    """
    before = _read(run)
    restarts = resumptions(run)
    if before and going_on is not None:
        restarts.append(dict(going_on))
    known: dict[str, Any] = {
        "run": before.get("run") or secrets.token_hex(16),
        "begun": before.get("begun") if before else utc_now(),
        "starts": before.get("starts", 1) + 1 if before else 1,
        "resumed": restarts,
        "ledger": _place(run.ledger),
        "plan": _written(run.plan),
        "data": list(map(_identity, data_files(data))),
    }
    write_json(_path(run), known | {"spec": spec if spec is not None else first_spec(run)})


def dates(run: RunDirectory) -> dict[str, Any]:
    """Return when a run first started, in UTC, and how many times it was started or resumed."""
    known = _read(run)
    return {"begun": known.get("begun"), "starts": known.get("starts", 1)}


def resumptions(run: RunDirectory) -> list[dict[str, Any]]:
    """Return what was noted each time that a run went on, as far as it was."""
    noted = _read(run).get("resumed")
    if not isinstance(noted, list):
        return []
    return [entry for entry in noted if isinstance(entry, dict)]


def utc_now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_spec(run: RunDirectory) -> str | None:
    """Return the text of the spec that a run began with, if it is known."""
    spec = _read(run).get("spec")
    return spec if isinstance(spec, str) else None


def check_origin(run: RunDirectory, *, data: Component | None, original_is_gone: bool) -> None:
    """Refuse a run directory that was copied or moved, and data files that changed since.

    Guarantee: of all copies of a directory on one machine, only the one in which the run began goes
    on. Another one does only if the user says that the original is gone, and it isn't found.

    A run that has charged nothing may lack `origin.json`, if a crash came first. Then a copy is as
    good as a new run.
    """
    if not run.ledger.stat().st_size and not _path(run).exists():
        return
    known = _read(run)
    moved = known.get("ledger") != _place(run.ledger) or known.get("plan") != _written(run.plan)
    if moved:
        _check_moved(run, known.get("ledger"), original_is_gone=original_is_gone)
    before = known.get("data")
    if not isinstance(before, list):
        raise PrivacyRefusal(
            f"{_path(run)}: expected to find what data the run began with, got nothing that says "
            "so."
        )
    _check_data(before, data_files(data), moved=moved)


def _check_moved(run: RunDirectory, ledger: Any, *, original_is_gone: bool) -> None:
    """Refuse a copied or moved run, unless the user says that the original is gone, and it is."""
    if not original_is_gone:
        option = "--original-is-gone"
        if not run.config.exists():
            option = f"RunDirectory.open({str(run.path)!r}, original_is_gone=True)"
        raise PrivacyRefusal(
            f"{run.path}: expected the directory in which the run began, got a copy, a moved one, "
            "or one that was put back. If two copies went on, each would spend what is left. If "
            f"the original is gone for good, say so by {option}."
        )
    original = _original(ledger, run)
    if original is not None:
        raise PrivacyRefusal(
            f"{original}: expected the original to be gone, got its ledger. Resume it there, or "
            "delete it."
        )


def _check_data(before: list[Any], files: list[Path], *, moved: bool) -> None:
    """Compare the data files one by one.

    Those of a run that was moved may have been moved as well, with their times kept.
    """
    kept = ("changed",) if moved else ("path", "inode", "changed")
    noted = []
    for entry in before:
        if isinstance(entry, Mapping):
            noted.append([entry.get(name) for name in kept])
    found = []
    changed = "data"
    for file in files:
        identity = _identity(file)
        now = [identity.get(name) for name in kept]
        found.append(now)
        if now not in noted and changed == "data":
            changed = str(file)
    if noted != found:
        raise PrivacyRefusal(
            f"{changed}: expected the data that the run began with, got files that changed since. "
            "Put them back with their times, or start a new run."
        )


def _original(place: Any, run: RunDirectory) -> Path | None:
    """Return the directory in which the run began, if it still holds a run of this very plan.

    That may be the original, or a copy that was put there.
    """
    if not isinstance(place, dict) or not isinstance(place.get("path"), str):
        return None
    ledger = Path(place["path"])
    if ledger == run.ledger:
        return None
    try:
        if not ledger.exists():
            return None
        plan = ledger.with_name(run.plan.name).read_bytes()
    except (OSError, ValueError):
        return None
    return ledger.parent if plan == run.plan.read_bytes() else None


def _path(run: RunDirectory) -> Path:
    return run.path / "origin.json"


def _read(run: RunDirectory) -> dict[str, Any]:
    try:
        known = json.loads(_path(run).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _place(ledger: Path) -> dict[str, Any]:
    """Return the path and the inode of the ledger; its times change with every charge."""
    try:
        return {"path": str(ledger.resolve()), "inode": ledger.stat().st_ino}
    except OSError:
        return {}


def _written(plan: Path) -> dict[str, Any]:
    """Return when the plan's inode was last changed.

    Inodes are used again; these times can't be set back.
    """
    stat = plan.stat()
    return {"inode": stat.st_ino, "changed": stat.st_ctime_ns}


def _identity(file: Path) -> dict[str, Any]:
    """Return the path, inode and time of a data file; nothing for one that is gone.

    A path that names an environment variable is noted as it is named.
    """
    try:
        stat = file.stat()
    except OSError:
        return {}
    path = file if isinstance(file, NamedPath) else file.resolve()
    return {"path": str(path), "inode": stat.st_ino, "changed": stat.st_mtime_ns}
