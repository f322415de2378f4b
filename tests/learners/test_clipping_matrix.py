"""Every clipper with every sampler, and with schedules of noise and of batches: each pair runs, or is refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from dppipe.runs.verify import verify_ledger

CLIPPERS = {
    "flat": "flat",
    "layerwise": "{kind: layerwise, shares: parameters}",
    "grouped": '{kind: grouped, max_grad_norms: {"*.bias": 0.1, "*": 1.0}}',
    "automatic": "automatic",
    "psac": "psac",
    "global": "global",
    "global adaptive": "{kind: global, variant: adaptive}",
    "adaptive": "adaptive",
    "adaptive layerwise": "{kind: adaptive, grouping: layerwise}",
    "adaclip": "adaclip",
    "microbatch": "microbatch",
    "jl": "{kind: jl, projections: 60, tolerance: 0.6, delta: 1.0e-6}",
}
SAMPLERS = {
    "poisson": ["accountant=tcdp"],
    "poisson under replace_one": ["accountant=pld", "budget.relation=replace_one"],
    "truncated_poisson": [
        "sampler={kind: truncated_poisson, expected_batch_size: 50}",
        "accountant=pld",
    ],
    "without_replacement": [
        "sampler={kind: without_replacement, expected_batch_size: 50}",
        "budget.relation=replace_one",
    ],
    "with_replacement": [
        "sampler={kind: with_replacement, expected_batch_size: 50}",
        "budget.relation=replace_one",
        "accountant=advanced",
        "noise.noise_multiplier=4",
    ],
    "shuffle": ["sampler={kind: shuffle, expected_batch_size: 50}", "accountant=gdp"],
    "balls_in_bins": ["sampler={kind: balls_in_bins, expected_batch_size: 50}"],
    "full_batch": ["sampler=full_batch", "accountant=zcdp", "noise.noise_multiplier=4"],
    "a noise schedule": ["noise={kind: linear, end: 0.5, noise_multiplier: 2.0}"],
}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("clipper", CLIPPERS)
def test_every_clipper_goes_with_every_sampler(run, clipper, sampler):
    changes = [
        f"clipping={CLIPPERS[clipper]}",
        "train.steps=2",
        "budget.epsilon=1e6",
        *SAMPLERS[sampler],
    ]
    done = run(*changes)
    assert done.exit_code == 0, done.output
    verified = verify_ledger(done.path)
    assert verified.intact, verified.faults
    assert verified.certified


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ["clipping=microbatch", "budget.relation=add_remove", "sampler.expected_batch_size=50"],
            "keep their places",
        ),
        (["clipping=jl"], "paid for"),
        (["clipping={kind: jl, projections: 10, delta: 1.0e-6}"], "expected at least"),
        (["clipping={kind: adaptive, unclipped_num_std: 0.4}"], "unclipped_num_std"),
        (["clipping={kind: adaptive, bound_schedule: linear}"], "bound_schedule"),
    ],
)
def test_what_can_not_be_combined_is_refused_by_name(run, changes, said):
    done = run(*changes)
    assert done.exit_code == 3, done.output
    assert said in done.output
    assert not done.path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "clipper", ["adaptive", "adaptive layerwise", "global adaptive", "adaclip", "microbatch"]
)
def test_two_processes_give_the_model_and_the_bounds_of_one(run, tmp_path, clipper):
    changes = [f"clipping={CLIPPERS[clipper]}", "reproducible=true"]
    one = run(*changes)
    words = [
        sys.executable,
        "-m",
        "dppipe",
        "run",
        str(tmp_path / "spec.yaml"),
        "--run-dir",
        str(tmp_path / "two"),
    ]
    words += [
        word
        for change in [*changes, "train.devices=2", "train.accelerator=cpu"]
        for word in ("--set", change)
    ]
    done = subprocess.run(
        words,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [
        json.loads(line) for line in (tmp_path / "two" / "ledger.jsonl").read_text().splitlines()
    ]
    assert [row["max_grad_norm"] for row in rows] == pytest.approx(
        [row["max_grad_norm"] for row in one.rows]
    )
    weights = torch.load(tmp_path / "two" / "checkpoints" / "final.ckpt", weights_only=True)
    torch.testing.assert_close(weights, one.weights(), rtol=0, atol=1e-4)
