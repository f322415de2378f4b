"""The noise that a plan announces is that of the release, in the statistics' own units."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.planning.privacy_plan import make_plan
from dppipe.planning.release_noise import release_noise
from dppipe.spec.load import load_spec

SPEC = """
version: 1
name: noisy
seed: 1
data: {{kind: npz, path: {path}, classes: 3, {scaling}}}
model: logistic
optimizer: {{kind: sgd, lr: 0.5}}
sampler: {{kind: poisson, sample_rate: 0.1}}
clipping: flat
noise: constant
accountant: rdp
budget: {{epsilon: 3.0, delta: 1.0e-5}}
train: {{steps: 20}}
"""


def write(folder: Path, scaling: str, *, features: int = 4, records: int = 1000) -> Path:
    x = numpy.zeros((records, features), dtype=numpy.float32)
    numpy.savez(folder / "d.npz", x=x, y=numpy.zeros(records, dtype=int))
    (folder / "spec.yaml").write_text(SPEC.format(path=folder / "d.npz", scaling=scaling))
    return folder / "spec.yaml"


def found(folder: Path, scaling: str, **sizes: int) -> Any:
    spec = load_spec(write(folder, scaling, **sizes))
    plan = make_plan(spec)
    return spec, plan, release_noise(spec.data, plan)


LIMITS = "limits: [{features: 0, lower: 0, upper: 50}]"


def test_means_are_off_by_what_is_announced(tmp_path: Path) -> None:
    scaling = f"normalize: {{kind: private, noise_multiplier: 5, lower: -1, {LIMITS}}}"
    spec, plan, noise = found(tmp_path, scaling)
    assert [each.statistics for each in noise] == [
        "1 feature from 0 to 50",
        "3 features from -1 to 1",
    ]
    one = spec.data.private_scaling
    rng = numpy.random.default_rng(0)
    total = one.total(numpy.zeros((plan.records, 4), dtype=numpy.float32) + 0.5, None)
    std = 5 * one.sensitivity(4)
    draws = 4000
    means = []
    for _ in range(draws):
        noisy = total + rng.normal(scale=std, size=total.shape)
        means.append(one.constants(noisy, count=plan.records).mean)
    seen = numpy.std(numpy.array(means), axis=0)
    # A sample deviation of 4,000 draws is within 8 % of the truth but for 1 in 10^11 times. The
    # first feature's mean, 0.5 of 50, is near a limit, where means are held to it.
    assert seen[1] == pytest.approx(noise[1].noise_std, rel=0.08)
    half = noise[0].noise_std / noise[1].noise_std
    assert half == pytest.approx(25)


def test_a_deviation_below_what_is_announced_can_be_mistaken_for_none(tmp_path: Path) -> None:
    spec, plan, (noise,) = found(tmp_path, "normalize: {kind: private, noise_multiplier: 5}")
    one = spec.data.private_scaling
    std = 5 * one.sensitivity(4) / plan.records
    # A variance at the announced size is two deviations of the noise: 0.05 of half the range, the
    # floor, or less is what is read off in one of 44 releases.
    variance = (noise.drowned_below / 0.5) ** 2
    assert variance == pytest.approx(2 * std)
    assert noise.drowned_below == pytest.approx(0.5 * math.sqrt(2 * std))


def test_the_plan_warns_where_noise_drowns_usual_values_and_only_there(tmp_path: Path) -> None:
    wide = write(
        tmp_path, "normalize: {kind: private, noise_multiplier: 20}", features=243, records=5000
    )
    shown = " ".join(CliRunner().invoke(app, ["plan", str(wide)]).output.split())
    assert "243 features from 0 to 1: means are off by" in shown
    assert "WARNING: noise drowns statistics of data.normalize" in shown
    few = write(tmp_path, "normalize: {kind: private, noise_multiplier: 5}", records=5000)
    quiet = CliRunner().invoke(app, ["plan", str(few)]).output
    assert "noise on what is released first" in quiet
    assert "WARNING" not in quiet
    data = json.loads(CliRunner().invoke(app, ["plan", str(few), "--json"]).output)
    assert data["release_noise"][0]["drowns"] is False
    none = write(tmp_path, "normalize: {mean: 0.5, std: 1}")
    assert "noise on what is released" not in CliRunner().invoke(app, ["plan", str(none)]).output


def test_at_a_warning_for_243_features_most_deviations_are_at_the_floor() -> None:
    """With half the range 0.5 and deviations of 0.1, noise of this size sets many to the floor."""
    one = PrivateScaling(noise_multiplier=20.0)
    inputs = numpy.random.default_rng(0).normal(0.5, 0.05, (2000, 243)).astype(numpy.float32)
    noise = numpy.random.default_rng(1).normal(scale=20 * one.sensitivity(243), size=486)
    spread = numpy.array(one.constants(one.total(inputs, None) + noise, count=2000).std)
    announced = 0.5 * math.sqrt(2 * 20 * one.sensitivity(243) / 2000)
    assert announced > 0.25 * 0.5  # where the plan warns
    assert (spread <= 0.5 * 0.05 * 1.0001).sum() > 80


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        ("normalize: {kind: private, noise_multiplier: 5, bins: 16}", "4 histograms of 16 bins"),
        (
            "features: {kind: pca, components: 2, max_norm: 1.0, noise_multiplier: 3}",
            "2 directions of 4",
        ),
        (
            "features: {kind: pca, components: 2, max_norm: 1.0, budget_share: 0.2}",
            "2 directions of 4",
        ),
    ],
)
def test_every_release_before_the_steps_is_announced(
    tmp_path: Path, scaling: str, words: str
) -> None:
    shown = CliRunner().invoke(app, ["plan", str(write(tmp_path, scaling))]).output
    assert words in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_the_announcement_needs_no_torch(tmp_path: Path) -> None:
    import subprocess

    path = write(tmp_path, "normalize: {kind: private, noise_multiplier: 5}")
    code = (
        "import sys; from typer.testing import CliRunner; from dppipe.cli.app import app; "
        f"done = CliRunner().invoke(app, ['plan', {str(path)!r}]); "
        "assert 'noise on what' in done.output, done.output; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
