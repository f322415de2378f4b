"""Where the store of budgets is, without opening it: its database library is slow to load."""

from __future__ import annotations

import os
from pathlib import Path

from dppipe.environment import expand

DEFAULT_STORE = Path(".dppipe") / "budgets.db"


def chosen_place(place: str | Path | None = None) -> str:
    """Return the store's file or URL: the one given, else DPPIPE_STORE's, else the default.

    One that names environment variables is returned as it is written, for messages and files.
    """
    return str(place or os.environ.get("DPPIPE_STORE") or DEFAULT_STORE)


def is_url(place: str) -> bool:
    """Whether a place is a database's URL; a mistyped URL isn't taken for a file's name."""
    return "://" in place or (":" in place and "@" in place)


def may_hold_store(place: str | Path | None = None) -> bool:
    """Whether a store could be there: a database, or a file that may exist."""
    chosen = expand(chosen_place(place))
    try:
        return is_url(chosen) or Path(chosen).exists()
    except OSError:  # a folder that this user may not enter
        return True
