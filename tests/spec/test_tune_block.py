"""The `tune` block: candidates in three forms, and mistakes at their places."""

from __future__ import annotations

from typing import Any

import pytest

from dppipe.errors import PrivacyRefusal, SpecError
from dppipe.spec import Spec, spec_from_text
from dppipe.spec.tuning.candidates import candidate_spec, list_candidates

GRID = """\
tune:
  candidates: {optimizer.lr: [0.1, 0.25, 0.5], clipping.max_grad_norm: [0.5, 1.0]}
  repetitions: {mean: 10}
"""


def tuned(base: str, *overrides: str) -> Spec:
    return spec_from_text(base + GRID, overrides=overrides)


def candidates(spec: Spec) -> list[Any]:
    assert spec.tune is not None
    return list_candidates(spec.tune, seed=spec.seed)


def test_a_grid_is_every_combination_in_order(base: str) -> None:
    found = candidates(tuned(base))
    assert [one.overrides for one in found[:3]] == [
        {"optimizer.lr": 0.1, "clipping.max_grad_norm": 0.5},
        {"optimizer.lr": 0.1, "clipping.max_grad_norm": 1.0},
        {"optimizer.lr": 0.25, "clipping.max_grad_norm": 0.5},
    ]
    assert len(found) == 6
    assert sum(one.weight for one in found) == pytest.approx(1)


def test_a_list_of_overrides_may_change_whole_blocks(base: str) -> None:
    spec = tuned(
        base,
        "tune.candidates=[{optimizer: {kind: adam, lr: 0.01}}, {train: {steps: 50}}, {}]",
        "tune.weights=[2, 1, 1]",
    )
    made = [candidate_spec(spec, one) for one in candidates(spec)]
    assert [one.optimizer.kind for one in made if one.optimizer] == ["adam", "sgd", "sgd"]
    assert made[1].train.steps == 50
    assert [one.weight for one in candidates(spec)] == [0.5, 0.25, 0.25]
    assert all(one.tune is None for one in made)


def test_ranges_are_drawn_by_the_public_seed_within_their_limits(base: str) -> None:
    ranges = (
        "tune.candidates={points: 40, ranges: {optimizer.lr: {low: 0.01, high: 1.0, scale: log}, "
        "train.epochs: {low: 2, high: 9, whole: true}}}"
    )
    found = candidates(tuned(base, ranges))
    assert found == candidates(tuned(base, ranges))
    assert found != candidates(tuned(base, ranges, "seed=8"))
    rates = [one.overrides["optimizer.lr"] for one in found]
    epochs = {one.overrides["train.epochs"] for one in found}
    assert len(found) == 40
    assert min(rates) >= 0.01
    assert max(rates) <= 1.0
    assert 10 < sum(rate < 0.1 for rate in rates) < 30  # seeded, so this never changes
    assert epochs <= set(range(2, 10))


def test_the_effective_spec_reads_back(base: str) -> None:
    spec = tuned(base, "tune.repetitions={kind: poisson, mean: 4}")
    assert spec_from_text(spec.to_yaml()) == spec
    assert "tune" not in spec_from_text(base).to_data()


@pytest.mark.parametrize(
    ("override", "path", "says"),
    [
        ("candidates={optimzer.lr: [1]}", "optimzer.lr.0", "Did you mean 'optimizer'"),
        ("candidates={optimizer.learning: [1]}", "optimizer.learning.0", "a key of the sgd kind"),
        ("candidates=[{optimizer.lr: -1}]", "0.optimizer.lr", "a number > 0, got -1"),
        ("candidates={optimizer.lr: 3}", "optimizer.lr", "a list of values"),
        ("candidates={optimizer.lr: []}", "optimizer.lr", "a list of values"),
        ("candidates=[3]", "0", "a block of overrides"),
        ("candidates={data.holdout: [public]}", "data.holdout.0", "one set of records"),
        ("candidates={budget.epsilon: [1]}", "budget.epsilon.0", "the whole search"),
        ("candidates={seed: [1]}", "seed.0", "All share seed"),
        ("candidates={ranges: {optimizer.lr: {low: 1, high: 2, scal: log}}, points: 2}", "ranges.optimizer.lr.scal", "scale"),
        ("candidates={ranges: {optimizer.lr: {low: 2, high: 1}}, points: 2}", "ranges.optimizer.lr", "low below high"),
        ("candidates={sampler.expected_batch_size: [9999]}", "sampler.expected_batch_size.0", "at most 1438"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_candidate_stands_at_its_place(
    base: str, override: str, path: str, says: str
) -> None:
    with pytest.raises(SpecError) as error:
        tuned(base, f"tune.{override}")
    (problem,) = error.value.problems
    assert ".".join(map(str, problem.path)) == f"tune.candidates.{path}"
    assert says in problem.message


def test_a_mistake_in_a_file_has_its_line(base: str) -> None:
    text = base + GRID.replace("optimizer.lr", "optimizer.lrr")
    with pytest.raises(SpecError, match=r"spec\.yaml:16:3\d: tune\.candidates\.optimizer\.lrr\.0"):
        spec_from_text(text)


@pytest.mark.parametrize(
    "override",
    [
        "tune.weights=[1, 2]",
        "tune.weights=[0, 0, 0, 0, 0, 0]",
        "tune.weights=[-1, 1, 1, 1, 1, 1]",
        "tune.repetitions.mean=1",
        "tune.repetitions.mean=1e9",
        "tune.repetitions={kind: poisson, mean: 4, shape: 1}",
        "tune.repetitions.kind=binomial",
        "tune.score.metric=auc",
        "tune.score.noise_std=2",
        "tune.candidates={}",
        "tune.candidates={optimizer.lr: 3}",
        "tune=5",
        "budget=none",
        "train={until: budget}",
        "data.split={train: 0.9, val: 0.0, test: 0.1}",
    ],
)
def test_what_contradicts_a_search_is_an_error(base: str, override: str) -> None:
    with pytest.raises(SpecError):
        tuned(base, override)


@pytest.mark.parametrize("override", ["reproducible=true", "diagnostics=nonprivate"])
def test_what_would_void_the_guarantee_is_refused(base: str, override: str) -> None:
    with pytest.raises(PrivacyRefusal):
        tuned(base, override)
