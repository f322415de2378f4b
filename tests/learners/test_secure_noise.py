"""`noise.secure`: from the spec to the stream that adds the noise, and what plan and statement say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.statement.noise_levels import DEFAULT_LEVEL, SECURE_LEVEL


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each stream that adds noise to a gradient is secure."""
    used: list[bool] = []
    add = GaussianStream.add_

    def noted(
        stream: GaussianStream, flat: torch.Tensor, std: float, *, over: float
    ) -> torch.Tensor:
        used.append(stream.secure)
        return add(stream, flat, std, over=over)

    monkeypatch.setattr(GaussianStream, "add_", noted)
    return used


@pytest.mark.parametrize("secure", [True, False])
def test_the_spec_decides_which_noise_is_drawn_and_the_statement_says_what_it_means(
    run, streams: list[bool], *, secure: bool
):
    done = run(f"noise.secure={str(secure).lower()}", "clipping={kind: adaptive}")
    assert done.exit_code == 0, done.output
    assert set(streams) == {secure}  # the gradient's and the count's
    assert json.loads((done.path / "plan.json").read_text())["secure"] is secure
    statement = json.loads((done.path / "privacy.json").read_text())
    assert statement["noise_level"] == (SECURE_LEVEL if secure else DEFAULT_LEVEL)
    text = (done.path / "privacy.md").read_text()
    assert (SECURE_LEVEL in text, DEFAULT_LEVEL in text) == (secure, not secure)
    assert ("common grid" in statement["not_covered"]["floating_point"]) == secure


def test_every_gradient_that_is_released_stands_on_the_grid_of_its_noise(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[torch.Tensor, float]] = []
    add = GaussianStream.add_

    def noted(
        stream: GaussianStream, flat: torch.Tensor, std: float, *, over: float
    ) -> torch.Tensor:
        added = add(stream, flat, std)
        seen.append((added.clone(), std))
        return added.div_(over)

    monkeypatch.setattr(GaussianStream, "add_", noted)
    assert run("noise={kind: constant, noise_multiplier: 1.0, secure: true}").exit_code == 0
    assert len(seen) == 10
    for values, std in seen:
        steps = values.double() / (std / 2**36)  # std is a power of two here
        assert torch.equal(steps, steps.round())


def test_plan_shows_secure_noise(run, tmp_path: Path) -> None:
    shown = (
        CliRunner()
        .invoke(app, ["plan", str(tmp_path / "spec.yaml"), "--set", "noise.secure=true"])
        .output
    )
    assert "(gaussian, secure)" in shown
    assert "(gaussian)" in CliRunner().invoke(app, ["plan", str(tmp_path / "spec.yaml")]).output


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            ["noise.secure=true", "noise.noise_multiplier=1025"],
            3,
            "noise.noise_multiplier: expected at most 1024",
        ),
        (
            ["clipping.max_grad_norm=1e-30"],
            2,
            "clipping.max_grad_norm: expected noise of a standard deviation",
        ),
        (
            ["clipping.max_grad_norm=1e30"],
            2,
            "clipping.max_grad_norm: expected noise of a standard deviation",
        ),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_charged(
    run, change: list[str], code: int, words: str
) -> None:
    done = run(*change)
    assert done.exit_code == code, done.output
    assert words in done.output
    assert not done.path.exists()
