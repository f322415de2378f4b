"""A folder of its own with `plugins/` in it, and what the checks say about a plugin's text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dppipe.plugin_kit import checking
from dppipe.plugin_kit.checking import CheckedKind, all_checks, check_file

Check = Callable[[str], CheckedKind]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugins").mkdir()
    return tmp_path


@pytest.fixture
def check(here: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check a plugin's text; the check that starts another process is left out, as it has tests of its own."""
    quick = [each for each in all_checks() if "pickles" not in each.title]
    monkeypatch.setattr(checking, "all_checks", lambda: quick)

    def go(text: str) -> CheckedKind:
        file = here / "plugins" / "mine.py"
        file.write_text(text)
        (checked,) = check_file(file)
        return checked

    return go
