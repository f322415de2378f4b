"""The example schedule: its shape, its limits, and every check."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppipe.plugin_kit import check_file
from dppipe.spec.kinds.registry import Registry

PLUGINS = Path(__file__).parents[2] / "plugins"
Cooldown = Registry(PLUGINS).load("noise", "cooldown")


def test_nothing_breaks_it() -> None:
    (checked,) = check_file(PLUGINS / "cooldown_schedule.py")
    assert not checked.faults


@given(hold=st.floats(0, 0.99), end=st.floats(0.01, 3), progress=st.floats(0, 1))
def test_the_noise_stays_between_its_first_and_its_last_value(
    hold: float, end: float, progress: float
) -> None:
    schedule = Cooldown(hold=hold, end=end)
    assert min(1, end) - 1e-9 <= schedule.multiplier(progress) <= max(1, end) + 1e-9
    assert schedule.multiplier(hold) == 1
    assert schedule.multiplier(1.0) == pytest.approx(end)
