"""Generators that modules and data sets keep for themselves: in a private step they draw from a secret seed."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from redteam.modules import Ordinary
from redteam.neighbours import pair
from redteam.own_generators import Augmenting, Drawing, DrawingAndKeeping, Noise, augmenting_data
from redteam.running import Case, Fit, assert_indistinguishable, observe
from torch import Tensor

from dppipe.lightning.isolation.own_generators import find_generators, secretly_seeded

KINDS = ["torch", "numpy", "old numpy", "python"]


def second_sums(run: Fit, data, folder) -> list[Tensor]:
    """Return the un-noised sum of the second step with one secret key for the model, and with another."""
    sums = []
    for salt in ("one", "two"):
        (folder / salt).mkdir()
        seen = observe(
            run, data(), folder / salt, relation="zero_out", salt=salt, salted=("model",)
        )
        sums.append(seen.trace.releases[1].before)
    return sums


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_of_a_module_hangs_on_a_secret_key(kind, tmp_path):
    one, two = second_sums(Fit(partial(Drawing, kind)), lambda: pair().first, tmp_path)
    assert not one.equal(two)


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_of_a_data_set_hangs_on_a_secret_key(kind, tmp_path):
    one, two = second_sums(Fit(Ordinary), lambda: augmenting_data(kind), tmp_path)
    assert not one.equal(two)


def test_a_record_of_which_a_module_keeps_something_does_not_change_what_others_draw(tmp_path):
    assert_indistinguishable(Case(Fit(DrawingAndKeeping), pair), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_draws_as_before_once_a_step_is_over(kind):
    plain, stepped = Noise(kind), Augmenting([], kind)
    with secretly_seeded(find_generators(stepped)):
        stepped.noise()
    assert torch.equal(plain(), stepped.noise())


def test_a_generator_that_a_function_has_captured_is_found():
    noise = Noise("numpy")
    with secretly_seeded(find_generators(lambda: noise())):
        drawn = noise()
    assert not torch.equal(drawn, Noise("numpy")())
