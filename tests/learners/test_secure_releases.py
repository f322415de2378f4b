"""`noise.secure`: every release of a run stands on the grid of its noise, whatever is released."""

from __future__ import annotations

import math

import pytest
import torch

from dppipe.randomness.gaussian import GaussianStream

STATISTICS = "data.normalize={kind: private, noise_multiplier: 10, lower: -4, upper: 4%s}"
RELEASES = {
    "gradients": ([], 10),
    "counts": (["clipping={kind: adaptive}"], 20),
    "counts of groups": (["clipping={kind: adaptive, grouping: layerwise}"], 20),
    "moments": ([STATISTICS % ""], 11),
    "histograms": ([STATISTICS % ", bins: 16"], 11),
    "moments and counts": ([STATISTICS % "", "clipping={kind: adaptive}"], 21),
    "scheduled noise": (["noise={kind: linear, noise_multiplier: 1.3}"], 10),
    "adaclip": (["clipping={kind: adaclip}"], 10),
    "microbatches": (["clipping={kind: microbatch}"], 10),
}


@pytest.fixture
def released(monkeypatch):
    """Whether each stream is secure, what it has released, and the noise."""
    seen = []
    add = GaussianStream.add_

    def noted(stream, flat, std, *, over=1.0):
        added = add(stream, flat, std)
        seen.append((stream.secure, added.clone().double(), float(std)))
        return added.div_(over)

    monkeypatch.setattr(GaussianStream, "add_", noted)
    return seen


def on_grid(values: torch.Tensor, std: float) -> bool:
    steps = values / 2.0 ** (math.floor(math.log2(std)) - 36)
    return torch.equal(steps, steps.round())


@pytest.mark.parametrize("what", RELEASES)
def test_all_releases_of_a_secure_run_stand_on_their_grids(what, run, released):
    changes, count = RELEASES[what]
    done = run(*changes, "noise.secure=true")
    assert done.exit_code == 0, done.output
    assert len(released) == count
    for secure, values, std in released:
        assert secure
        assert on_grid(values, std)
    assert "common grid" in (done.path / "privacy.md").read_text()


@pytest.mark.parametrize("what", ["gradients", "moments and counts"])
def test_no_release_of_another_run_is_said_to_stand_on_one(what, run, released):
    changes, count = RELEASES[what]
    done = run(*changes)
    assert done.exit_code == 0, done.output
    assert [secure for secure, _, _ in released] == [False] * count
    assert "common grid" not in (done.path / "privacy.md").read_text()
