"""The example clipper: its formula, its limits, and every check."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dppipe.plugin_kit import check_file
from dppipe.spec.kinds.registry import Registry

PLUGINS = Path(__file__).parents[2] / "plugins"
SoftClip = Registry(PLUGINS).load("clipping", "soft")


def test_nothing_breaks_it() -> None:
    (checked,) = check_file(PLUGINS / "soft_clip.py")
    assert not checked.faults


@given(norm=st.floats(0, 1e6), bound=st.floats(1e-3, 1e3), stability=st.floats(1e-4, 10))
def test_a_gradient_counts_for_less_than_the_bound(
    norm: float, bound: float, stability: float
) -> None:
    norms, bounds = (
        torch.tensor([norm], dtype=torch.float64),
        torch.tensor([bound], dtype=torch.float64),
    )
    (factor,) = SoftClip(max_grad_norm=bound, stability=stability).factors(norms, bounds).tolist()
    assert factor == pytest.approx(bound / (norm + stability))
    assert factor * norm < bound


def test_order_is_kept() -> None:
    norms = torch.logspace(-3, 3, 20)
    clipped = SoftClip().factors(norms, torch.ones(20)) * norms
    assert (clipped.diff() > 0).all()
