"""The folder of what dppipe keeps outside of run directories."""

from __future__ import annotations

import os
from pathlib import Path


def local_folder() -> Path:
    """Return the folder of the file that DPPIPE_STORE names; else `.dppipe`."""
    store = os.environ.get("DPPIPE_STORE") or ""
    is_url = "://" in store or (":" in store and "@" in store)
    return Path(".dppipe") if is_url or not store else Path(store).parent
