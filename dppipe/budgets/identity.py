"""The id of a run in its store: generated once for every run directory, and kept in `budget.json`.

A directory that was deleted and used again is another run, and so is one with the same path on
another machine. So no charge is ever settled for another run that had the same path.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from dppipe.durable import sync_names
from dppipe.errors import PrivacyRefusal

_FILE = "budget.json"


def has_identity(run_dir: Path) -> bool:
    """Whether a run has an id in a store, and so may have reserved."""
    return (run_dir / _FILE).exists()


def read_identity(run_dir: Path) -> dict[str, Any] | None:
    """Return a run's id, scope and store; None where it never reserved."""
    path = run_dir / _FILE
    if not has_identity(run_dir):
        return None
    try:
        known = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        known = None
    if not isinstance(known, dict):
        raise PrivacyRefusal(
            f"{path}: expected the id that this run has reserved with, got a damaged file."
        )
    return known


def take_identity(run_dir: Path, *, scope: str, place: str, fresh: bool) -> str:
    """Return a run's id in its scope; a run that has charged nothing yet gets a new one."""
    known = read_identity(run_dir)
    if known is not None:
        if known.get("scope") != scope:
            raise PrivacyRefusal(
                f"budget.scope: expected {known.get('scope')!r}, which this run has reserved in, "
                f"got {scope!r}."
            )
        return str(known.get("run_id"))
    path = run_dir / _FILE
    if not fresh:
        raise PrivacyRefusal(
            f"{path}: expected the id that this run has reserved with, got no file. Its charges "
            "are in no scope."
        )
    run_id = f"{path.absolute().parent.name}-{secrets.token_hex(8)}"
    data = json.dumps({"run_id": run_id, "scope": scope, "store": place}, indent=2).encode() + b"\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DSYNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
    sync_names(path)
    return run_id
