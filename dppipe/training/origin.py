"""Where a run directory was made, so that a copy of it can't be resumed beside the original.

Two copies that both went on would each spend what is left, and neither ledger would know of the other. So a run remembers
the place and the inode of its ledger, and the files that its data came from by their times, never by their contents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dppipe.component import Component
from dppipe.errors import PrivacyRefusal
from dppipe.training.run_directory import RunDirectory, write_json


def remember_origin(run: RunDirectory, *, data: Component | None) -> None:
    """Note where the run stands and what its data came from; the ledger must be there already."""
    write_json(_path(run), {"ledger": _identity(run.ledger), "data": [_identity(file) for file in _files(data)]})


def check_origin(run: RunDirectory, *, data: Component | None, original_is_gone: bool) -> None:
    """Refuse a run directory that was copied or moved, and data files that were changed since the run began.

    Where nothing is charged yet, a copy is as good as a new run, and a crash may have come before the origin was noted.
    """
    if not run.ledger.stat().st_size and not _path(run).exists():
        return
    try:
        known = json.loads(_path(run).read_bytes())
        place, before = known["ledger"], {entry["path"]: entry for entry in known["data"]}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        place, before = None, None
    if place != _identity(run.ledger) and not original_is_gone:
        raise PrivacyRefusal(
            f"{run.path}: expected the directory in which the run began, got a copy or a moved one. If two copies went on, each "
            "would spend what is left. If the original is gone for good, say so by --original-is-gone."
        )
    if before is None:
        raise PrivacyRefusal(f"{_path(run)}: expected to find what data the run began with, got nothing that says so.")
    changed = [str(file) for file in _files(data) if before.get(str(file.resolve())) != _identity(file)]
    if changed:
        raise PrivacyRefusal(f"{', '.join(changed)}: expected the data that the run began with, got files that changed since.")


def _path(run: RunDirectory) -> Path:
    return run.path / "origin.json"


def _identity(file: Path) -> dict[str, Any]:
    try:
        stat = file.stat()
    except OSError:
        return {}  # gone: like nothing that was noted
    identity: dict[str, Any] = {"path": str(file.resolve()), "inode": stat.st_ino}
    # The ledger's own times change with every charge.
    return identity if file.name == "ledger.jsonl" else identity | {"changed": stat.st_mtime_ns}


def _files(data: Component | None) -> Iterator[Path]:
    for value in vars(data).values() if data is not None else ():
        if isinstance(value, Path):
            yield from sorted(file for file in value.rglob("*") if file.is_file()) if value.is_dir() else [value]
