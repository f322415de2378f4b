"""Whole runs with features: charged in order, on the budget, and models that take raw inputs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.data.features.orientation_histograms import OrientationHistograms
from dppipe.data.reading.scaling import Constants
from dppipe.learners.inputs.model_inputs import made_up_batch
from dppipe.learners.inputs.projection import ProjectionStage
from dppipe.local_folder import local_folder
from dppipe.planning.privacy_plan import make_plan
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.verify import verify_ledger
from dppipe.spec.load import load_spec

LEARNER = """
version: 1
name: featured
data: {kind: npz, path: DATA, classes: 3, holdout: public, split: {train: 0.8, val: 0.1, test: 0.1}}
model: logistic
learner: {kind: output_perturbation, max_norm: 1.0, regularization: 5.0}
accountant: rdp
budget: {epsilon: 4.0, delta: 1.0e-5}
"""
STEPS = """
version: 1
name: featured
data: {kind: npz, path: DATA, classes: 3, holdout: public, split: {train: 0.8, val: 0.1, test: 0.1}}
model: logistic
optimizer: {kind: sgd, lr: 0.5}
sampler: {kind: poisson, sample_rate: 0.1}
accountant: rdp
budget: {epsilon: 4.0, delta: 1.0e-5}
train: {steps: 4}
"""
PCA = "data.features={kind: pca, components: 5, max_norm: 2.0, noise_multiplier: 6.0}"
SHARE = "data.features={kind: pca, components: 5, max_norm: 2.0, budget_share: 0.3}"
HISTOGRAMS = "data.features={kind: orientation_histograms, cells: [2], orientations: 4}"
SCALED = "data.normalize={kind: private, noise_multiplier: 9.0}"


def write_spec(folder: Path, text: str) -> Path:
    """Write a spec, and 300 images of 6 x 6 pixels in three classes."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 300)
    images = generator.uniform(0, 0.4, size=(300, 1, 6, 6))
    for kind in range(3):
        images[labels == kind, 0, 2 * kind : 2 * kind + 2] += 0.6
    np.savez(folder / "records.npz", x=images.astype(np.float32), y=labels)
    path = folder / "spec.yaml"
    path.write_text(text.replace("DATA", str(folder / "records.npz")))
    return path


def command(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def finished(folder: Path, text: str, *changes: str) -> Path:
    words = [word for change in changes for word in ("--set", change)]
    done = command("run", write_spec(folder, text), "--run-dir", folder / "run", *words)
    assert done.exit_code == 0, done.output
    return folder / "run"


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("text", [LEARNER, STEPS], ids=["learner", "steps"])
@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ([PCA], ["projection"]),
        ([SCALED], ["statistics"]),
        ([SCALED, PCA], ["statistics", "projection"]),
        ([SCALED, HISTOGRAMS], ["statistics"]),
        ([HISTOGRAMS], []),
    ],
    ids=["pca", "scaled", "scaled pca", "scaled histograms", "histograms"],
)
def test_what_comes_first_is_charged_first_and_raw_inputs_are_predicted(
    tmp_path: Path, text: str, changes: list[str], first: list[str]
) -> None:
    run = finished(tmp_path, text, *changes)
    rows = rows_of(run)
    own = ["weights"] if text == LEARNER else ["step"] * 4
    assert [row.get("what", "step") for row in rows] == [*first, *own]
    assert verify_ledger(run).intact
    assert command("ledger", "verify", run).exit_code == 0
    assert (run / "projection.pt").exists() == ("projection" in first)
    assert (run / "statistics.json").exists() == ("statistics" in first)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["charged"] == len(rows)
    assert 3.99 < summary["epsilon"] <= 4.0
    assert command("evaluate", run).exit_code == 0
    with np.load(tmp_path / "records.npz") as arrays:
        raw = torch.from_numpy(arrays["x"])
    model = dppipe.load_model(run)
    torch.testing.assert_close(model(raw), by_hand(run, raw, changes), rtol=1e-4, atol=1e-5)


def by_hand(run: Path, raw: torch.Tensor, changes: list[str]) -> torch.Tensor:
    """Return a model's outputs with every transform written down once more."""
    inputs = raw.double()
    if SCALED in changes:
        found = json.loads((run / "statistics.json").read_text())
        inputs = (inputs - found["mean"][0]) / found["std"][0]
    if PCA in changes:
        directions = torch.load(run / "projection.pt", weights_only=True)["directions"]
        inputs = inputs.flatten(1) @ directions
    elif HISTOGRAMS in changes:
        inputs = OrientationHistograms(cells=(2,), orientations=4).transformed(inputs)
    weights = torch.load(run / "checkpoints" / "final.ckpt", weights_only=True)
    flat = inputs.flatten(1)
    learner = json.loads((run / "plan.json").read_text())["learner"]
    if learner == "output_perturbation":
        flat = flat / flat.norm(dim=1, keepdim=True).clamp(min=1.0)
    matrix, bias = (weights[name].double() for name in sorted(weights, reverse=True))
    return (flat @ matrix.T + bias).float()


@pytest.mark.parametrize("text", [LEARNER, STEPS], ids=["learner", "steps"])
@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_noise_that_is_found_lands_on_the_budget_with_what_comes_first(
    tmp_path: Path, text: str, relation: str
) -> None:
    if text == STEPS and relation == "replace_one":
        text = text.replace("poisson, sample_rate: 0.1", "full_batch")
    path = write_spec(tmp_path, text)
    changes = [f"budget.relation={relation}"]
    plain = make_plan(load_spec(path, overrides=changes))
    spec = load_spec(path, overrides=[*changes, SHARE])
    plan = make_plan(spec)
    assert plan.epsilon is not None
    assert 3.99 < plan.epsilon <= 4.0
    assert plan.releases[0].what == "projection"
    if text == LEARNER:
        assert [release.what for release in plan.releases] == ["projection", "weights"]
        before = plain.releases[0].facts["noise_multiplier"]
        assert plan.releases[1].facts["noise_multiplier"] > before
        events = [(release.dp_event, 1) for release in plan.releases]
        cost = spec.accountant.compose(events, relation=relation).epsilon(1e-5)
        assert cost == pytest.approx(plan.epsilon, rel=1e-9)
    else:
        assert plan.noise_multiplier(1) > plain.noise_multiplier(1)


def test_what_comes_first_may_not_use_up_the_budget(tmp_path: Path) -> None:
    path = write_spec(tmp_path, LEARNER)
    done = command("plan", path, "--set", PCA.replace("6.0", "0.5"))
    said = " ".join(done.output.split())
    assert done.exit_code == 3, said
    assert "data.features.noise_multiplier: expected projection that cost less than" in said
    assert "got 0.5" in said


def test_the_number_of_records_may_be_secret_for_a_projection_and_not_for_statistics(
    tmp_path: Path,
) -> None:
    run = finished(tmp_path, LEARNER, PCA, "budget.relation=add_remove")
    assert [row["what"] for row in rows_of(run)] == ["projection", "weights"]
    assert rows_of(run)[0]["relation"] == "add_remove"
    done = command(
        "validate", tmp_path / "spec.yaml", "--set", SCALED, "--set", "budget.relation=add_remove"
    )
    assert done.exit_code in (2, 3), done.output
    assert "data.normalize: expected nothing that is divided by the number of records" in " ".join(
        done.output.split()
    )


def test_without_a_budget_the_projection_is_that_of_the_records(tmp_path: Path) -> None:
    run = finished(tmp_path, LEARNER, PCA, "budget=none")
    assert rows_of(run) == []
    found = torch.load(run / "projection.pt", weights_only=True)["directions"].numpy()
    with np.load(tmp_path / "records.npz") as arrays:
        flat = arrays["x"].reshape(300, -1).astype(np.float64)
    assert np.linalg.norm(flat @ found) > 0.97 * np.linalg.norm(flat)


@pytest.mark.parametrize("text", [LEARNER, STEPS], ids=["learner", "steps"])
def test_a_projection_comes_from_the_noisy_matrix_whose_row_was_durable_first(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise is seen when it is drawn: the ledger has its row by then, and it decides the directions."""
    seen: list[tuple[int, float, int]] = []
    usual = GaussianStream.add_

    def noted(self: Any, flat: torch.Tensor, std: float, **others: Any) -> Any:
        rows = len(rows_of(tmp_path / "run"))
        seen.append((rows, std, flat.numel()))
        if flat.numel() == 36 * 37 // 2:
            flat.zero_()
            flat[0], flat[36] = 5.0, 4.0  # the first two numbers of the diagonal
            return flat
        return usual(self, flat, std, **others)

    monkeypatch.setattr(GaussianStream, "add_", noted)
    run = finished(
        tmp_path,
        text,
        "data.features={kind: pca, components: 2, max_norm: 2.0, noise_multiplier: 6.0}",
    )
    rows, std, size = seen[0]
    assert (rows, size) == (1, 666)
    assert std == pytest.approx(6.0 * 4.0, rel=1e-5)
    assert rows_of(run)[0]["facts"]["sensitivity"] == pytest.approx(4.0, rel=1e-5)
    directions = torch.load(run / "projection.pt", weights_only=True)["directions"].abs()
    assert float(directions[0, 0]) == pytest.approx(1.0)
    assert float(directions[1, 1]) == pytest.approx(1.0)


def test_noise_on_the_matrix_has_the_size_that_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """666 numbers; their variance within 6 standard errors: false alarms below 1e-8."""
    noise: list[torch.Tensor] = []
    usual = GaussianStream.add_

    def noted(self: Any, flat: torch.Tensor, std: float, **others: Any) -> Any:
        before = flat.clone()
        found = usual(self, flat, std, **others)
        noise.append(flat - before)
        return found

    monkeypatch.setattr(GaussianStream, "add_", noted)
    finished(tmp_path, LEARNER, PCA)
    share = float(noise[0].square().mean()) / (6.0 * 4.0) ** 2
    assert abs(share - 1) < 6 * math.sqrt(2 / 666)


def test_features_are_kept_beside_the_store_and_never_in_a_run(tmp_path: Path) -> None:
    run = finished(tmp_path, LEARNER, HISTOGRAMS)
    assert len(list((local_folder() / "cache").glob("*.npy"))) == 2  # training and validation
    assert not list(run.rglob("*.npy"))
    off = HISTOGRAMS.replace("cells", "cache: false, cells")
    (tmp_path / "second").mkdir()
    finished(tmp_path / "second", LEARNER, off, "seed=3")
    assert len(list((local_folder() / "cache").glob("*.npy"))) == 2


@pytest.mark.parametrize(
    ("block", "column", "said"),
    [
        (
            "{kind: pca, components: 37, max_norm: 1, noise_multiplier: 2}",
            "components",
            "expected at most 36",
        ),
        ("{kind: pca, components: 2, noise_multiplier: 2}", "max_norm", "expected"),
        (
            "{kind: pca, components: 2, max_norm: 1}",
            "features",
            "expected one of noise_multiplier and budget_share",
        ),
        ("{kind: orientation_histograms, cells: [7]}", "cells", "expected 1 to 6 cells"),
        ("{kind: orientation_histograms, bins: 7}", "bins", "expected a key of"),
        (
            "{kind: wavelets}",
            "features",
            "expected a block with kind: orientation_histograms or pca",
        ),
        ("wavelets", "features", "expected a block with kind"),
    ],
)
@pytest.mark.parametrize("text", [LEARNER, STEPS], ids=["learner", "steps"])
def test_options_that_do_not_fit_are_errors_at_their_line(
    tmp_path: Path, text: str, block: str, column: str, said: str
) -> None:
    text = text.replace("holdout: public,", f"holdout: public,\n  features: {block},")
    done = command("validate", write_spec(tmp_path, text))
    output = " ".join(done.output.split())
    assert done.exit_code == 2, output
    assert "spec.yaml:5:" in output, output
    assert column in output
    assert said.lower() in output.lower()


def test_histograms_of_a_table_are_refused_at_their_line(tmp_path: Path) -> None:
    text = LEARNER.replace(
        "{kind: npz, path: DATA, classes: 3,",
        "{kind: breast_cancer,\n  features: {kind: orientation_histograms},",
    )
    done = command("validate", write_spec(tmp_path, text))
    output = " ".join(done.output.split())
    assert done.exit_code == 2, output
    assert "spec.yaml:5:" in output
    assert "expected images [channels, height, width]" in output


def test_made_up_examples_go_through_the_features(tmp_path: Path) -> None:
    path = write_spec(tmp_path, LEARNER)
    for changes, shape in (([PCA], (4, 5)), ([SCALED, HISTOGRAMS], (4, 16)), ([], (4, 1, 6, 6))):
        data = load_spec(path, overrides=changes).data
        inputs, targets = made_up_batch(data, 4)
        assert tuple(inputs.shape) == shape
        assert data.model_input_shape == shape[1:]
        assert len(targets) == 4
        assert len({tuple(row.flatten().tolist()) for row in inputs}) == 4


def test_constants_scale_tensors_as_they_scale_arrays() -> None:
    inputs = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    constants = Constants(mean=(0.1, 0.2, 0.3), std=(0.7,))
    transformed = constants.transformed(torch.from_numpy(inputs.copy()))
    constants.apply(inputs)
    assert torch.equal(transformed, torch.from_numpy(inputs))


def test_users_records_are_averaged_and_bad_ones_left_out(tmp_path: Path) -> None:
    """One user has 200 copies of a long record, and one record of another is broken."""
    text = LEARNER.replace(
        "classes: 3,", "classes: 3, user: owner, users: 100, on_bad_record: drop,"
    )
    text = text.replace("train: 0.8, val: 0.1, test: 0.1", "train: 1.0, val: 0.0, test: 0.0")
    path = write_spec(tmp_path, text.replace("{epsilon", "{unit: user, epsilon"))
    with np.load(tmp_path / "records.npz") as arrays:
        images, labels = arrays["x"], arrays["y"]
    images[:200] = 0.0
    images[:200, 0, 0, 0] = 50.0
    images[200] = np.nan
    owners = np.concatenate([np.zeros(200, dtype=np.int64), 1 + np.arange(100) % 99])
    np.savez(tmp_path / "records.npz", x=images, y=labels, owner=owners)
    totals: list[torch.Tensor] = []
    usual = ProjectionStage.total

    def noted(self: Any, inputs: torch.Tensor, users: Any) -> torch.Tensor:
        total = usual(self, inputs, users)
        totals.append(total.clone())  # noise is added in place
        return total

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProjectionStage, "total", noted)
        done = command("run", path, "--run-dir", tmp_path / "run", "--set", PCA)
    assert done.exit_code == 0, done.output
    row = rows_of(tmp_path / "run")[0]
    assert (row["what"], row["unit"]) == ("projection", "user")
    assert totals[0].isfinite().all()
    # The first user counts 2^2 at most, however many records there are; the others fill the rest.
    others = images[201:].reshape(99, -1).astype(np.float64)
    others *= np.minimum(1, 2 / np.linalg.norm(others, axis=1, keepdims=True))
    # The broken record's owner has one other record, which counts whole.
    shares = 1 / np.array([np.sum(owners[201:] == owner) for owner in owners[201:]])
    expected = 4 + float((shares * others[:, 0] ** 2).sum())
    assert float(totals[0][0]) == pytest.approx(expected, rel=1e-3)


def test_data_of_ones_own_class_takes_features_beside_it(tmp_path: Path) -> None:
    data = "data={kind: class_path, class_path: dppipe.data.Digits, holdout: public, features: {kind: orientation_histograms, cells: [2]}}"
    run = finished(tmp_path, STEPS, data)
    assert command("evaluate", run).exit_code == 0
    assert dppipe.load_model(run)(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert len(list((local_folder() / "cache").glob("*.npy"))) == 3
    own = "data={kind: class_path, class_path: torch.utils.data.TensorDataset, input_shape: [1, 8, 8], outputs: 10, task: multiclass, records: 100, features: {kind: orientation_histograms}}"
    done = command("validate", tmp_path / "spec.yaml", "--set", own)
    assert done.exit_code == 2
    assert "data.features: expected data in memory" in " ".join(done.output.split())
