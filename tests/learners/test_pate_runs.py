"""Whole runs of PATE: the noise that was charged is there, nothing else is left, misuse is refused."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learners.pate_specs import CLASSES, QUERIES, dppipe, made_up, sets, write_spec
from scipy import stats

import dppipe as package
from dppipe.errors import PrivacyRefusal
from dppipe.learners.inputs.model_inputs import released_transforms
from dppipe.learners.job import Job
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.learners.teaching.votes import Voting
from dppipe.pipeline.evaluate import evaluate_run
from dppipe.pipeline.learn import untrained_module
from dppipe.pipeline.public_inputs import read_public_inputs
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.directory import RunDirectory
from dppipe.runs.verify import verify_ledger
from dppipe.spec.load import load_spec

CONFIDENT = ("learner.aggregator=confident_gnmax", "learner.asked=90", "learner.threshold=6")


class Run:
    """A finished run, with its rows and released values."""

    def __init__(self, path: Path, *changes: str) -> None:
        self.directory = path.parent / "run"
        done = dppipe("run", path, "--run-dir", self.directory, *sets(*changes))
        assert done.exit_code == 0, done.output
        self.output = done.output
        lines = (self.directory / "ledger.jsonl").read_text().splitlines()
        self.rows = [json.loads(line) for line in lines]
        self.plan = json.loads((self.directory / "plan.json").read_text())
        self.spec = load_spec(path, overrides=list(changes))
        self.values: list[Any] = []
        for file in sorted((self.directory / "released").iterdir()):
            self.values.append(torch.load(file, weights_only=True)["value"])

    def counts(self, inputs: int) -> Any:
        """Return the counts without noise on the first public inputs."""
        splits = self.spec.data.splits(seed=self.spec.seed)
        records = TrainingRecords(splits.train, by_users=False, may_read=lambda: True)
        facts = self.spec.public_facts()
        job = Job(facts, untrained_module(self.spec), records, self.directory)
        public = read_public_inputs(self.spec)
        assert public is not None
        learner: Any = self.spec.learner
        voting = Voting(job, learner.teacher, teachers=learner.teachers, inputs=public[:inputs])
        return voting.counts_at(torch.arange(inputs), inputs)


def is_likely(square: float, size: int) -> bool:
    """Whether a sum of squared normal values is usual: a false alarm in 10^9 runs."""
    return bool(stats.chi2.ppf(5e-10, size) < square < stats.chi2.isf(5e-10, size))


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_the_noise_on_votes_is_as_large_as_was_charged(tmp_path: Path, relation: str) -> None:
    run = Run(write_spec(tmp_path), f"budget.relation={relation}")
    (row,) = run.rows
    assert (row["what"], row["count"]) == ("vote", QUERIES)
    sigma = row["facts"]["noise_scale"]
    half = 2 if relation == "replace_one" else 1
    assert row["event"]["type"] == "GaussianDpEvent"
    assert row["event"]["noise_multiplier"] == pytest.approx(half * sigma / math.sqrt(2))
    (value,) = run.values
    noise = value.reshape(QUERIES, CLASSES) - run.counts(QUERIES)
    assert is_likely(float((noise / sigma).square().sum()), QUERIES * CLASSES)
    assert verify_ledger(run.directory).intact
    assert verify_ledger(run.directory).charged == QUERIES


def test_the_noise_of_both_confident_releases_is_as_large_as_was_charged(tmp_path: Path) -> None:
    run = Run(write_spec(tmp_path), *CONFIDENT)
    first, second = run.rows
    assert (first["what"], first["count"]) == ("confidence", 90)
    assert (second["what"], second["count"]) == ("vote", QUERIES)
    sigma = second["facts"]["noise_scale"]
    assert first["facts"]["noise_scale"] == pytest.approx(3.75 * sigma)
    assert first["event"]["noise_multiplier"] == pytest.approx(3.75 * sigma)
    assert second["event"]["noise_multiplier"] == pytest.approx(sigma / math.sqrt(2))
    largest, votes = run.values
    counts = run.counts(90)
    noise = (largest - counts.amax(1)) / (3.75 * sigma)
    assert is_likely(float(noise.square().sum()), 90)
    chosen = (largest >= 6).nonzero().flatten()[:QUERIES]
    asked = torch.zeros(QUERIES, CLASSES, dtype=torch.float64)
    asked[: len(chosen)] = counts[chosen]
    noise = (votes.reshape(QUERIES, CLASSES) - asked) / sigma
    assert is_likely(float(noise.square().sum()), QUERIES * CLASSES)
    assert verify_ledger(run.directory).charged == 90 + QUERIES


def test_where_no_input_passes_all_is_charged_and_the_student_stays_as_it_was(
    tmp_path: Path,
) -> None:
    run = Run(write_spec(tmp_path), *CONFIDENT[:2], "learner.threshold=1000000")
    assert verify_ledger(run.directory).charged == 90 + QUERIES
    assert "if fewer do, as many are charged" in (run.directory / "privacy.md").read_text()
    torch.manual_seed(run.spec.seed)
    untrained = untrained_module(run.spec).state_dict()
    for name, value in torch.load(run.directory / "checkpoints" / "final.ckpt").items():
        assert value.equal(untrained[name])


def test_laplace_votes_have_the_scale_that_was_charged(tmp_path: Path) -> None:
    run = Run(write_spec(tmp_path), "learner.aggregator=lnmax", "accountant=basic")
    (row,) = run.rows
    scale = row["facts"]["noise_scale"]
    assert row["event"] == {"type": "LaplaceDpEvent", "noise_multiplier": scale / 2}
    assert verify_ledger(run.directory).epsilon == pytest.approx(QUERIES * 2 / scale, rel=1e-6)
    noise = (run.values[0].reshape(QUERIES, CLASSES) - run.counts(QUERIES)).abs().sum()
    # Twice a sum of exponential values is one of squares.
    assert is_likely(float(2 * noise / scale), 2 * QUERIES * CLASSES)


ALLOWED = {
    "checkpoints/final.ckpt",
    "config.yaml",
    "ledger.jsonl",
    "origin.json",
    "plan.json",
    "privacy.json",
    "privacy.md",
    "released/0001.pt",
    "released/0002.pt",
    "summary.json",
}


def test_a_run_leaves_votes_with_noise_and_nothing_of_the_teachers(tmp_path: Path) -> None:
    run = Run(write_spec(tmp_path), *CONFIDENT)
    found = set()
    for file in run.directory.rglob("*"):
        if file.is_file() and "tfevents" not in file.name:
            found.add(str(file.relative_to(run.directory)))
    assert found <= ALLOWED
    assert not (run.directory / "nonprivate").exists()
    summary = json.loads((run.directory / "summary.json").read_text())
    assert set(summary["metrics"]) == {"val/accuracy"}
    assert "teacher" not in run.output.replace("teachers", "")
    charged = f"releases 2, charged {summary['charged']} times"
    assert charged in " ".join(run.output.split())
    for value in run.values:
        assert not value.frac().eq(0).any()  # counts without noise are whole numbers


def test_what_given_votes_cost_is_written_on_request_and_as_not_private_alone(
    tmp_path: Path,
) -> None:
    run = Run(write_spec(tmp_path), *CONFIDENT, "diagnostics=nonprivate")
    file = run.directory / "nonprivate" / "pate" / "epsilon_data_dependent.json"
    found = json.loads(file.read_text())
    assert 0 < found["epsilon"] <= 1.2 * run.plan["epsilon"]
    assert "don't publish it" in found["meaning"]
    summary = json.loads((run.directory / "summary.json").read_text())
    assert summary["epsilon"] == run.plan["epsilon"]
    assert (
        "recorded without noise, under `nonprivate/`" in (run.directory / "privacy.md").read_text()
    )


def test_the_student_is_the_model_of_the_run(tmp_path: Path) -> None:
    student = "learner.student.model={kind: mlp, hidden: [8]}"
    run = Run(write_spec(tmp_path), student, "budget.epsilon=2000")  # next to no noise
    state = torch.load(run.directory / "checkpoints" / "final.ckpt", weights_only=True)
    model = package.load_model(run.directory)
    assert list(model.state_dict()) == list(state)
    inputs, labels = made_up(200, seed=9)
    found = model(torch.from_numpy(inputs)).argmax(1).numpy()
    assert (found == labels).mean() > 0.6
    assert evaluate_run(run.directory)["test/accuracy"] > 0.5
    statement = " ".join((run.directory / "privacy.md").read_text().split())
    assert "12 teachers, each trained on a block of the records of its own" in statement
    assert "That these inputs are public is the spec's statement" in statement


def test_without_noise_the_student_learns_the_plurality(tmp_path: Path) -> None:
    path = write_spec(tmp_path, **{"{epsilon: 8.0, delta: 1.0e-5}": "none"})
    done = dppipe("run", path, "--run-dir", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "releases 1, without noise" in " ".join(done.output.split())
    metrics = json.loads((tmp_path / "run" / "summary.json").read_text())["metrics"]
    assert metrics["val/accuracy"] > 0.75


def test_teachers_are_trained_inside_the_gate_and_labels_come_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    usual = Voting.counts_at
    path = write_spec(tmp_path)
    ledger = tmp_path / "run" / "ledger.jsonl"

    def counted(self: Any, *args: Any) -> Any:
        seen.append(("counts", ledger.read_bytes().count(b"\n")))
        return usual(self, *args)

    def noted(self: Any, flat: Any, std: float, **others: Any) -> Any:
        seen.append(("noise", ledger.read_bytes().count(b"\n")))
        return noise(self, flat, std, **others)

    noise = GaussianStream.add_
    monkeypatch.setattr(Voting, "counts_at", counted)
    monkeypatch.setattr(GaussianStream, "add_", noted)
    Run(path)
    assert [what for what, _ in seen] == ["counts", "noise"]
    assert seen[1] == ("noise", 1)  # its row is on the disk


@pytest.mark.parametrize("what", ["add_remove", "user"])
def test_other_relations_and_units_run_and_add_up(tmp_path: Path, what: str) -> None:
    changes = ["budget.relation=add_remove"]
    if what == "user":
        changes = ["budget.unit=user", "data.user=who", "data.users=200"]
    run = Run(write_spec(tmp_path), *changes)
    assert verify_ledger(run.directory).intact
    assert run.rows[0]["unit"] == ("user" if what == "user" else "example")


def test_network_teachers_vote_too(tmp_path: Path) -> None:
    teacher = "learner.teacher={kind: network, model: {kind: logistic}, train: {epochs: 20}}"
    run = Run(write_spec(tmp_path), teacher)
    assert verify_ledger(run.directory).charged == QUERIES


FEATURES = {
    "orientation_histograms": ("orientation_histograms", ["vote"]),
    "pca": ("{kind: pca, components: 4, max_norm: 3.0, budget_share: 0.3}", ["projection", "vote"]),
}


@pytest.mark.parametrize("kind", FEATURES)
def test_public_inputs_get_the_features_of_the_private_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    option, released = FEATURES[kind]
    path = write_spec(tmp_path)
    images, labels = made_up(400, seed=1, width=64)
    public = made_up(100, seed=2, width=64)[0].reshape(-1, 1, 8, 8)
    np.savez(tmp_path / "private.npz", x=images.reshape(-1, 1, 8, 8), y=labels)
    np.savez(tmp_path / "public.npz", x=public)
    voted: list[torch.Tensor] = []
    usual = Voting.__init__

    def noted(self: Any, *args: Any, inputs: torch.Tensor, **options: Any) -> None:
        voted.append(inputs)
        usual(self, *args, inputs=inputs, **options)

    monkeypatch.setattr(Voting, "__init__", noted)
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "store.db"))
    run = Run(path, f"data.features={option}")
    assert [row["what"] for row in run.rows] == released
    assert verify_ledger(run.directory).intact
    (transform,) = released_transforms(run.spec.data, RunDirectory.open(run.directory))
    assert voted[0].equal(transform.transformed(torch.from_numpy(public))[:QUERIES])
    model = package.load_model(run.directory)
    assert model(torch.from_numpy(public)).shape == (100, CLASSES)
    done = dppipe("plan", path, *sets(f"learner.public.features={option}"))
    assert "learner.public.features: expected none" in " ".join(done.output.split())


REFUSED: list[tuple[list[str], str]] = [
    (["learner.teachers=1"], "learner.teachers: expected an integer >= 2"),
    (["learner.teachers=321"], "learner.teachers: expected at most 320, the number of training"),
    (["learner.queries=101"], "learner.queries: expected at most 100, the number of public"),
    (["learner.threshold=3"], "learner.threshold: expected nothing with aggregator 'gnmax'"),
    ([CONFIDENT[0], "learner.asked=101"], "learner.asked: expected at most 100, the number of"),
    ([CONFIDENT[0], "learner.asked=10"], "learner.asked: expected at least queries, 40, got 10"),
    (["learner.public.path=gone.npz"], "learner.public.path: expected a file, got gone.npz"),
    (["learner.public={kind: digits}"], "learner.public: expected inputs of shape [5]"),
    (["learner.public.split={train: 0.5}"], "learner.public.split: expected none"),
    (["model=mlp"], "model: expected no model, as learner 'pate' takes none"),
    (["sampler=poisson"], "sampler: expected no sampler, as learner 'pate' takes none"),
    (["learner.teacher.kind=network"], "expected model beside kind: network, got none"),
    (["learner.teacher.model=mlp"], "expected no model beside kind: ridge"),
    (["learner.student.train.batch_size=8"], "expected batch_size beside an optimizer"),
    (["learner.noise_scale=1"], "learner.noise_scale: expected releases that cost at most"),
    (
        ["learner.teacher={kind: network, model: {kind: mlp, pretrained: a.ckpt}}"],
        "learner.teacher.model: expected teachers that start from nothing",
    ),
    (
        ["learner.teacher={kind: network, model: {class_path: a.B}}"],
        "learner.teacher.model: expected a model of the package",
    ),
    (["data.classes=null", "data.y=x"], "learner.kind: expected a task with classes"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:48])
def test_misuse_is_refused_by_the_plan(tmp_path: Path, changes: list[str], message: str) -> None:
    done = dppipe("plan", write_spec(tmp_path), *sets(*changes))
    assert done.exit_code in (2, 3), done.output
    assert message in " ".join(done.output.split())


def test_a_spec_without_a_public_set_is_refused_at_its_line(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    lines = [line for line in path.read_text().splitlines() if "public: {" not in line]
    path.write_text("\n".join(lines))
    done = dppipe("plan", path)
    assert done.exit_code == 2
    assert "spec.yaml:4:1: learner.public: expected" in " ".join(done.output.split())


def test_the_private_records_are_not_taken_as_public(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    done = dppipe("plan", path, *sets(f"learner.public.path={tmp_path / 'private.npz'}"))
    assert done.exit_code == 2
    assert "learner.public: expected other records than the run's own" in done.output
    shutil.copy(tmp_path / "private.npz", tmp_path / "public.npz")
    run = tmp_path / "run"
    done = dppipe("run", path, "--run-dir", run)
    assert done.exit_code == 3
    assert "got a copy of their file" in " ".join(done.output.split())
    assert not run.exists()


def test_public_inputs_that_cannot_be_used_are_refused_before_anything_is_charged(
    tmp_path: Path,
) -> None:
    path = write_spec(tmp_path)
    inputs = made_up(100, seed=2)[0]
    inputs[50] = np.nan
    np.savez(tmp_path / "public.npz", x=inputs)
    done = dppipe("run", path, "--run-dir", tmp_path / "run")
    assert done.exit_code == 2
    assert "record 51: expected finite inputs" in " ".join(done.output.split())
    changes = sets("learner.public.on_bad_record=drop", "learner.queries=100")
    done = dppipe("run", path, "--run-dir", tmp_path / "run", *changes)
    assert done.exit_code == 2
    assert "expected 100 public inputs that can be used, got 99" in " ".join(done.output.split())
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == b""


def test_votes_cannot_be_had_outside_of_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Voting] = []
    usual = Voting.__init__

    def kept(self: Any, *args: Any, **options: Any) -> None:
        usual(self, *args, **options)
        held.append(self)

    monkeypatch.setattr(Voting, "__init__", kept)
    Run(write_spec(tmp_path))
    with pytest.raises(PrivacyRefusal, match="gate's computation"):
        held[0].largest_counts()


def test_a_plan_needs_no_torch_and_takes_less_than_three_seconds(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    code = (
        "import sys, time\n"
        "start = time.process_time()\n"
        "from typer.testing import CliRunner\n"
        "from dppipe.cli.app import app\n"
        f"done = CliRunner().invoke(app, ['plan', {str(path)!r}])\n"
        "print(done.exit_code, 'torch' in sys.modules, time.process_time() - start)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    exit_code, has_torch, seconds = done.stdout.split()
    assert (exit_code, has_torch) == ("0", "False")
    assert float(seconds) < 3


@pytest.mark.slow
def test_its_recipe_runs_within_its_budget_and_learns(tmp_path: Path) -> None:
    recipe = Path(__file__).parents[2] / "pipelines" / "learners" / "pate.yaml"
    done = dppipe("run", recipe, "--run-dir", tmp_path / "run")
    assert done.exit_code == 0, done.output
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 2.9 < summary["epsilon"] <= 3
    assert summary["metrics"]["val/accuracy"] > 0.8
    assert verify_ledger(tmp_path / "run").intact
