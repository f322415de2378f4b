"""The bound that follows a quantile: single updates, and whole courses on norms of a known distribution."""

from __future__ import annotations

import math

import pytest
import torch

from dppipe.clipper_abilities import in_state
from dppipe.clipping import Adaptive, Global
from dppipe.clipping.quantiles import next_threshold
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.noise_split import gradient_multiplier

LIMITS = {"low": 1e-6, "high": 1e6}


@pytest.mark.parametrize(
    ("bound", "fraction", "wanted"), [(1.0, 0.8, 0.9417645336), (0.1, 0.3, 0.1040810774)]
)
def test_one_update_is_geometric(bound, fraction, wanted):
    moved = next_threshold(bound, fraction - 0.5, target=0.5, learning_rate=0.2, **LIMITS)
    assert moved == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    ("noise_multiplier", "std", "wanted"),
    [(1, 5, 1.0050378153), (1, 1, 1.1547005384), (1.1, 12.8, 1.1010168807)],
)
def test_the_gradient_gets_the_noise_that_the_count_leaves_it(noise_multiplier, std, wanted):
    assert gradient_multiplier(noise_multiplier, statistics_std=std) == pytest.approx(
        wanted, abs=1e-9
    )


@pytest.mark.parametrize("statistics", [1, 4, 9])
def test_both_releases_together_are_the_charged_one(statistics):
    of_gradient = gradient_multiplier(1.3, statistics_std=7.0, statistics=statistics)
    of_counts = 7.0 / (math.sqrt(statistics) / 2)
    assert of_gradient**-2 + of_counts**-2 == pytest.approx(1.3**-2)


@pytest.mark.parametrize(
    ("noise_multiplier", "std", "statistics"), [(2.0, 1.0, 1), (3.0, 1.0, 1), (1.0, 1.0, 4)]
)
def test_a_count_that_would_use_up_the_step_is_refused(noise_multiplier, std, statistics):
    with pytest.raises(PrivacyRefusal, match="unclipped_num_std"):
        gradient_multiplier(noise_multiplier, statistics_std=std, statistics=statistics)


@pytest.mark.parametrize("mean", [-1e30, 1e30, math.inf, -math.inf, math.nan])
def test_whatever_is_released_the_bound_stays_within_its_limits(mean):
    bound = 1.0
    for _ in range(1000):
        bound = next_threshold(bound, mean, target=0.5, learning_rate=0.2, low=0.1, high=3.0)
        assert 0.1 <= bound <= 3.0


def share_below(threshold: float) -> float:
    """The norms are lognormal about 1: their distribution function."""
    return 0.5 * (1 + math.erf(math.log(threshold) / math.sqrt(2)))


def course(clipper, state, *, steps: int, batch: int = 256, seed: int = 0):
    """Take steps on fresh lognormal norms, with the noise of a run."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        now, bounds = in_state(clipper, state), torch.tensor(clipper.bounds(state)).flatten()
        norms = torch.randn(batch, len(bounds), generator=generator).exp()
        statistics = (
            torch.func.vmap(now.statistics, in_dims=(0, None))(norms, bounds)
            .clamp(-0.5, 0.5)
            .sum(0)
        )
        noise = (
            torch.randn(len(bounds), generator=generator)
            * clipper.statistics_std(batch)
            * math.sqrt(len(bounds))
        )
        state = clipper.update(state, {"means": tuple(((statistics + noise) / batch).tolist())})
    return state


@pytest.mark.parametrize("start", [100.0, 0.01])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("target", [0.3, 0.5, 0.7])
def test_from_a_bound_a_hundred_times_off_the_target_is_reached_within_150_steps(
    start, seed, target
):
    """The bound ends within 0.1 of the quantile; its spread there is about 0.012, so the seeds could be any."""
    wanted = math.exp(math.sqrt(2) * torch.erfinv(torch.tensor(2 * target - 1.0)).item())
    clipper = Adaptive(max_grad_norm=start * wanted, target_unclipped_quantile=target)
    state = course(clipper, clipper.init_state({"all": 10}), steps=150, seed=seed)
    assert share_below(state["bounds"][0]) == pytest.approx(target, abs=0.1)


@pytest.mark.parametrize(
    ("options", "wanted"), [({"max_clipbound": 2.0}, 2.0), ({"min_clipbound": 9.0}, 9.0), ({}, 5.0)]
)
def test_the_first_bound_is_within_the_limits_too(options, wanted):
    assert Adaptive(max_grad_norm=5.0, **options).init_state({"all": 10})["bounds"] == (wanted,)


def test_groups_by_patterns_start_from_the_bounds_that_are_listed_for_them():
    clipper = Adaptive(max_grad_norms={"a": 3.0, "b": 4.0})
    assert clipper.init_state({"b": 1, "a": 1})["bounds"] == (4.0, 3.0)
    assert clipper.max_grad_norm == 5.0


def test_every_group_finds_its_own_bound():
    clipper = Adaptive(max_grad_norms={"a": 100.0, "b": 0.01, "*": 1.0})
    state = course(clipper, clipper.init_state({"a": 1, "b": 1, "*": 1}), steps=150)
    assert [share_below(bound) for bound in state["bounds"]] == pytest.approx([0.5] * 3, abs=0.15)


def test_a_global_threshold_finds_its_quantile_and_keeps_its_bound():
    clipper = Global(
        variant="adaptive", threshold=0.05, max_grad_norm=0.3, target_unclipped_quantile=0.9
    )
    state = course(clipper, clipper.init_state({"all": 10}), steps=150)
    assert share_below(state["threshold"]) == pytest.approx(0.9, abs=0.06)
    assert clipper.bounds(state) == 0.3
