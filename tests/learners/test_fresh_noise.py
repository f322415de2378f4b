"""Noise of learners without steps is fresh in every run, whatever the seed of the spec is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dppipe.cli.app import app

RECIPES = Path(__file__).parents[2] / "pipelines" / "learners"


def released(recipe: Path, run: Path, *changes: str) -> torch.Tensor:
    words = ["run", str(recipe), "--run-dir", str(run)]
    for change in changes:
        words += ["--set", change]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    weights = torch.load(run / "checkpoints" / "final.ckpt", weights_only=True)
    return torch.cat([tensor.double().flatten() for tensor in weights.values()])


@pytest.mark.parametrize("name", ["mean", "output_perturbation"])
def test_two_runs_of_one_seed_release_different_noise(tmp_path, monkeypatch, name):
    monkeypatch.chdir(RECIPES.parents[1])
    recipe = RECIPES / f"{name}.yaml"
    first = released(recipe, tmp_path / "first")
    second = released(recipe, tmp_path / "second")
    assert not torch.equal(first, second)


def test_a_reproducible_run_repeats_its_noise(tmp_path, monkeypatch):
    monkeypatch.chdir(RECIPES.parents[1])
    recipe = RECIPES / "mean.yaml"
    first = released(recipe, tmp_path / "first", "reproducible=true")
    second = released(recipe, tmp_path / "second", "reproducible=true")
    assert torch.equal(first, second)
