"""The benchmark measures what it says; figures themselves are never tested."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from dppipe.bench.chart import draw_chart
from dppipe.bench.compare import Comparison, compare, geometric_mean, machine, workload_of
from dppipe.bench.measure import Times, time_step
from dppipe.bench.steps import make_step
from dppipe.bench.workloads import WORKLOADS, Workload, classify
from dppipe.cli.app import app
from dppipe.clipping import Flat

TINY = Workload(
    "tiny",
    "one layer",
    lambda: nn.Linear(4, 3),
    lambda: (torch.randn(5, 4), torch.randint(0, 3, (5,))),
    classify,
)
SPEC = """
version: 1
name: digits
data: digits
model: {kind: mlp, hidden: [8]}
optimizer: {kind: sgd, lr: 0.1}
sampler: {kind: poisson, expected_batch_size: 16}
budget: {epsilon: 3.0, delta: 1.0e-5}
train: {steps: 2}
"""


def test_a_ratio_is_to_the_samples_on_both_sides():
    slow = time_step("slow", lambda: time.sleep(0.02), lambda: time.sleep(0.01), rounds=3)
    assert 1.3 < slow.ratio < 2.2
    assert slow.low <= slow.ratio <= slow.high
    assert slow.samples == 3


@pytest.mark.parametrize("contender", ["plain", "dppipe"])
def test_a_step_changes_the_weights_and_leaves_no_gradient_of_one_row(contender):
    model, batch = TINY.make(), TINY.batch()
    before = model.weight.detach().clone()
    make_step(contender, TINY, model, batch, clipper=Flat())()
    assert not torch.equal(before, model.weight)


def test_every_workload_runs_without_a_fallback():
    """The five reference workloads and the two that the engine was not tuned on, on a few rows."""
    from dppipe.engine import Engine

    for workload in WORKLOADS:
        model, batch = workload.make(), tuple(part[:2] for part in workload.batch())
        with Engine(model, workload.per_sample_loss, Flat()) as engine:
            norms = engine.accumulate(batch, engine.zeros(), bounds=engine.bounds())
        assert norms.isfinite().all()
        assert not engine.layout.fallback
        assert engine.layout.functional is None


def test_a_contender_that_fails_is_reported():
    found = Comparison(
        "x",
        "x",
        1,
        Times("plain again", 1, 1, 1, 1, 3),
        (Times("dppipe", 1, 1.2, 1.1, 1.3, 3), Times("opacus ew", 0, 0, 0, 0, 0, failed="no")),
    )
    ET.fromstring(draw_chart([found]))
    assert found.private.ratio == 1.2


def test_the_geometric_mean_and_the_machine_are_told():
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert machine()["cores"] >= 1


def test_a_spec_s_own_model_is_benchmarked(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    workload, clipper = workload_of({"spec": str(spec)})
    assert clipper == Flat()
    assert len(workload.batch()[0]) == 16
    comparison = compare({"spec": str(spec)}, rounds=2, threads=1, opacus=False, memory=False)
    assert comparison.private.samples == 2


def test_a_spec_that_draws_users_is_benchmarked_on_as_many_rows():
    recipe = Path(__file__).parents[2] / "pipelines" / "recipes" / "users.yaml"
    secret = [
        "data.users=3000",
        "budget.relation=add_remove",
        "sampler.sample_rate=0.1",
        "sampler.expected_batch_size=70",
    ]
    for overrides, rows in ([], 300), (secret, 70):
        workload, _ = workload_of({"spec": str(recipe), "overrides": overrides})
        assert len(workload.batch()[0]) == rows


@pytest.mark.slow
def test_the_command_prints_ratios_and_writes_files(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    out = tmp_path / "out"
    result = CliRunner().invoke(
        app,
        ["bench", str(spec), "--rounds", "2", "--threads", "1", "--no-opacus", "--out", str(out)],
    )
    assert result.exit_code == 0, result.output
    assert "dppipe" in result.output
    data = json.loads((out / "bench.json").read_text())
    assert data["comparisons"][0]["contenders"][0]["contender"] == "dppipe"
    ET.parse(out / "bench.svg")


def test_nothing_to_benchmark_is_an_error():
    assert CliRunner().invoke(app, ["bench"]).exit_code == 2


@pytest.mark.parametrize("letters", ["z", "az"])
def test_an_unknown_workload_is_refused_before_anything_is_timed(letters, monkeypatch):
    monkeypatch.setattr(
        "dppipe.bench.compare.time_step", lambda *args, **options: pytest.fail("timed")
    )
    done = CliRunner().invoke(app, ["bench", "--reference", letters])
    assert done.exit_code == 2
    assert "--reference: expected letters of abcdefg, got 'z'" in done.output
