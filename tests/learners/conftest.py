"""What tests of learners share."""

from __future__ import annotations

from pathlib import Path

import pytest
from learners.plugin_runs import Desk, make_desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder with the plugin learner `nearest` and its spec."""
    return make_desk(tmp_path / "desk")
