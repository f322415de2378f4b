"""The score of a run: bounded by record, with the planned noise where the holdout is private."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pipeline.tuning.searches import write_spec
from torch.utils.data import TensorDataset

from dppipe.learners.gating.sources import NoiseSources
from dppipe.pipeline.tuning.scoring import score_run
from dppipe.planning.tuning.tune_plan import PlannedScore
from dppipe.spec import Spec, load_spec


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return load_spec(write_spec(tmp_path, ("holdout: public", "holdout: private")))


def network() -> torch.nn.Module:
    made = torch.nn.Linear(3, 3, bias=False)
    torch.nn.init.eye_(made.weight)
    return made.eval()


def records(wrong: float) -> TensorDataset:
    """Return twenty records that are answered rightly, and one with a huge value, wrongly."""
    inputs = torch.eye(3).repeat(7, 1) * 20
    inputs[-1] = torch.tensor([wrong, 0.0, 0.0])
    return TensorDataset(inputs, torch.arange(3).repeat(7))


def score(spec: Spec, metric: str, std: float | None, *, wrong: float = 1e6) -> float | None:
    planned = PlannedScore(metric=metric, noise_std=std)  # type: ignore[arg-type]
    sources = NoiseSources(3)
    return score_run(network(), records(wrong), spec, planned=planned, sources=sources)


def test_one_record_moves_a_private_score_by_one_at_most(spec: Spec) -> None:
    for metric, best in [("accuracy", 20.0), ("loss", -1.0)]:
        assert score(spec, metric, 1e-9) == pytest.approx(best, abs=1e-4)
        assert score(spec, metric, 1e-9, wrong=float("nan")) == pytest.approx(best, abs=1e-4)


def test_a_private_score_has_the_planned_noise(spec: Spec) -> None:
    """The noise follows from a seed here, so that twice the noise is twice as far off."""
    once = (score(spec, "accuracy", 1.0) or 0.0) - 20
    twice = (score(spec, "accuracy", 2.0) or 0.0) - 20
    assert abs(once) > 1e-3
    assert twice == pytest.approx(2 * once)


def test_a_public_score_is_the_mean(spec: Spec) -> None:
    assert score(spec, "accuracy", None) == pytest.approx(20 / 21)


def test_a_network_that_has_diverged_has_no_score(spec: Spec) -> None:
    made = network()
    made.weight.data[0, 0] = float("nan")  # type: ignore[union-attr]
    planned = PlannedScore(metric="accuracy", noise_std=None)
    assert score_run(made, records(0.0), spec, planned=planned, sources=NoiseSources(3)) is None
