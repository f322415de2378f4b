"""Whole runs of the learner that chooses: its candidates, its choice, and the runs behind them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gates import Opened
from learners.small_learners import facts_of, fitted, readable, write_spec
from learners.test_perturbed_runs import assert_planned_without_torch, dppipe
from randomness.test_selection import agrees
from torch.utils.data import TensorDataset

import dppipe as package
from dppipe.errors import PrivacyRefusal
from dppipe.learners.exponential import Exponential
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.gating.selection import select_noisily, selecting_mechanism
from dppipe.learners.gating.sources import NoiseSources
from dppipe.learners.job import Job
from dppipe.learners.selecting.candidate_files import file_hash
from dppipe.learners.selecting.candidate_networks import candidate_networks
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.mechanisms import exponential, gaussian, permute_and_flip
from dppipe.privacy.events.plain import event_from_data
from dppipe.privacy.textbook.selections import exponential_chances, permute_and_flip_chances
from dppipe.runs.verify import verify_ledger
from dppipe.spec.load import load_spec

EVENTS = {"exponential": exponential, "permute_and_flip": permute_and_flip}
CHANCES = {"exponential": exponential_chances, "permute_and_flip": permute_and_flip_chances}
MONOTONE = [0.090031, 0.244728, 0.665241]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the file of finished runs to the test."""
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "store" / "budgets.db"))
    return tmp_path / "store"


def run_of(path: Path, *changes: str, name: str = "run") -> Path:
    words = [word for change in changes for word in ("--set", change)]
    done = dppipe("run", str(path), "--run-dir", str(path.parent / name), *words)
    assert done.exit_code == 0, done.output
    return path.parent / name


def refused(path: Path, *changes: str, command: str = "plan") -> str:
    words = [word for change in changes for word in ("--set", change)]
    done = dppipe(command, str(path), *words)
    assert done.exit_code in (2, 3), done.output
    return " ".join(done.output.split())


def released(run: Path) -> int:
    saved = torch.load(run / "released" / "0001.pt", weights_only=True)
    return int(saved["value"])


@pytest.mark.parametrize("mechanism", EVENTS)
@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_the_choice_has_the_odds_of_its_event(mechanism: str, relation: Relation) -> None:
    """Chi-squared over 10,000 choices. False alarms: 1e-6 each.

    One-directional scores have the odds of twice the epsilon, replaced records those of epsilon.
    """
    scores = Bounded(torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64), 0.5, monotone=True)
    event = EVENTS[mechanism](1.0)
    stream = NoiseSources().selection(selecting_mechanism(event))
    seen = [0, 0, 0]
    for _ in range(10_000):
        seen[select_noisily(event, scores, relation=relation, stream=stream)] += 1
    odds = CHANCES[mechanism]([0, 1, 2], 1.0 if relation == "replace_one" else 2.0)
    assert agrees(seen, odds)
    if mechanism == "exponential" and relation != "replace_one":
        assert odds == pytest.approx(MONOTONE, abs=1e-6)


@pytest.mark.parametrize("mechanism", EVENTS)
def test_the_learners_choice_has_these_odds(tmp_path: Path, mechanism: str) -> None:
    """Chi-squared over 10,000 choices by what the learner hands over. False alarms: 1e-6."""
    spec = load_spec(write_spec(tmp_path, "exponential"))
    learner: Any = spec.learner.model_copy(update={"mechanism": mechanism, "epsilon": 0.7})
    facts = facts_of((5,), records=6)
    inputs = torch.zeros(6, 5)
    inputs[:, 0] = torch.tensor([1.0, -1.0, 0.3, 0.2, -0.1, 0.4])
    dataset = TensorDataset(inputs, (inputs[:, 0] > 0).float())
    network = spec.model.build((5,), 1)
    _, bounded = fitted(learner, facts, dataset, network)
    logits = torch.stack([4 * inputs[:, 0], -4 * inputs[:, 0], 0 * inputs[:, 0]])
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, dataset.tensors[1].expand(3, 6), reduction="none"
    )
    expected = -losses.clamp(0, 1.5).sum(1) / 1.5
    (release,) = learner.releases(facts, scale=9.9)
    stream = NoiseSources().selection(selecting_mechanism(release.event))
    seen = [0, 0, 0]
    for _ in range(10_000):
        seen[select_noisily(release.event, bounded, relation="zero_out", stream=stream)] += 1
    assert agrees(seen, CHANCES[mechanism](expected.tolist(), 2 * 0.7))


def test_the_gate_selects_by_the_event_that_it_charges(tmp_path: Path) -> None:
    delta = {"type": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": 1e-6}
    for number, event in enumerate((gaussian(1.0), event_from_data(delta))):
        (tmp_path / str(number)).mkdir()
        opened = Opened(tmp_path / str(number), event)
        with pytest.raises(PrivacyRefusal, match="for permute-and-flip, got"):
            opened.gate.select(opened.next(), opened.compute)
        opened.expect_untouched()
    opened = Opened(tmp_path, exponential(1e3), permute_and_flip(1e3))
    for _ in range(2):  # a million noise scales apart
        scores = Bounded(torch.tensor([0.0, 1e6, 1.0]), 1.0)
        assert opened.gate.select(opened.next(), lambda scores=scores: scores) == 1
    assert opened.gate.sources._gumbel is not None
    assert opened.gate.sources._exponential is not None


@pytest.mark.parametrize("mechanism", EVENTS)
def test_a_run_charges_once_and_leaves_the_chosen_weights(tmp_path: Path, mechanism: str) -> None:
    # 300 records and losses that differ by about one each: another choice has odds of e^-100.
    run = run_of(write_spec(tmp_path, "exponential"), f"learner.mechanism={mechanism}")
    assert released(run) == 0
    weights = torch.load(tmp_path / "good.pt", weights_only=True)
    model: Any = package.load_model(run)
    assert torch.equal(model.state_dict()["1.weight"], weights["1.weight"])
    (row,) = map(json.loads, (run / "ledger.jsonl").read_text().splitlines())
    kind = "ExponentialMechanismDpEvent" if mechanism == "exponential" else "EpsilonDeltaDpEvent"
    assert row["event"]["type"] == kind
    assert row["event"]["epsilon"] == pytest.approx(1.0, rel=1e-4)
    found = verify_ledger(run)
    assert found.intact
    assert 0.99 < found.epsilon <= 1.0
    statement = json.loads((run / "privacy.json").read_text())
    assert "candidate with the largest noisy score" in statement["noise_level"]
    assert "candidates" in statement["not_covered"]
    facts = statement["releases"][0]["facts"]
    assert [len(facts[f"sha256_{place}"]) for place in (1, 2, 3)] == [64] * 3
    # The weights were there before, so that a second run isn't charged for the first one.
    assert released(run_of(tmp_path / "spec.yaml", name="again")) == 0


def test_without_noise_the_candidate_with_the_least_loss_is_chosen(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "exponential")
    order = ", ".join(f"{tmp_path}/{name}.pt" for name in ("none", "bad", "good"))
    run = run_of(path, "budget=none", f"learner.candidates=[{order}]")
    assert dppipe("ledger", "verify", str(run)).exit_code in (0, 2, 3)
    model: Any = package.load_model(run)
    good = torch.load(tmp_path / "good.pt", weights_only=True)
    assert torch.equal(model.state_dict()["1.weight"], good["1.weight"])


@pytest.mark.parametrize("kind", ["mean", "exponential"])
@pytest.mark.parametrize("relation", ["zero_out", "add_remove"])
def test_users_are_covered(tmp_path: Path, kind: str, relation: str) -> None:
    path = write_spec(tmp_path, kind)
    arrays = dict(np.load(tmp_path / "records.npz"))
    np.savez(tmp_path / "records.npz", **arrays, user=np.arange(300) % 60)
    number = "users: 60, " if relation == "zero_out" else ""
    path.write_text(path.read_text().replace("records: 300, ", f"{number}user: user, "))
    changes = [f"budget.relation={relation}", "budget.unit=user"]
    changes += ["learner.expected_records=60"] * (kind == "mean" and relation == "add_remove")
    run = run_of(path, *changes)
    assert verify_ledger(run).intact
    (row,) = map(json.loads, (run / "ledger.jsonl").read_text().splitlines())
    assert row["unit"] == "user"
    if kind == "mean":
        assert row["facts"]["divisor"] == 60.0
    else:  # 60 users, whose losses differ by about one each: another choice has odds of e^-30
        assert released(run) == 0


REFUSED = [
    (["learner.candidates=[FOLDER/good.pt]"], "learner.candidates"),
    (["learner.candidates=[FOLDER/good.pt, FOLDER/gone.pt]"], "gone.pt, which isn't there"),
    (["learner.candidates=[FOLDER/good.pt, FOLDER/good.pt]"], "expected each file once"),
    (["learner.loss_bound=0"], "learner.loss_bound"),
    (["learner.epsilon=2"], "learner.epsilon: expected releases that cost at most epsilon 1"),
    (["model={kind: logistic, trainable: ['1.*']}"], "model.trainable: expected nothing with"),
    (["model={kind: logistic, pretrained: FOLDER/bad.pt}"], "model.pretrained: expected nothing"),
    (["sampler=poisson"], "sampler: expected no sampler"),
    (["learner.mechanism=permute_and_flip", "accountant=gdp"], "no proof"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_does_not_apply_is_an_error(tmp_path: Path, changes: list[str], message: str) -> None:
    path = write_spec(tmp_path, "exponential")
    found = refused(path, *[change.replace("FOLDER", str(tmp_path)) for change in changes])
    assert message in found


BAD_FILES = {
    "another model": ({"0.weight": torch.zeros(1, 5)}, "'1.weight' doesn't fit"),
    "another shape": (
        {"1.weight": torch.zeros(2, 5), "1.bias": torch.zeros(1)},
        "'1.weight' doesn't fit",
    ),
    "not finite": (
        {"1.weight": torch.full((1, 5), torch.nan), "1.bias": torch.zeros(1)},
        "expected finite numbers",
    ),
    "no tensors": ({"1.weight": "a", "1.bias": 3}, "something other than named tensors"),
    "code": (print, "can't be read as one"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_cannot_be_chosen_is_refused_before_a_charge(tmp_path: Path, kind: str) -> None:
    path = write_spec(tmp_path, "exponential")
    content, message = BAD_FILES[kind]
    torch.save(content, tmp_path / "bad.pt")
    done = dppipe("run", str(path), "--run-dir", str(tmp_path / "run"))
    assert done.exit_code in (2, 3), done.output
    output = " ".join(done.output.split())
    assert message in output
    assert "learner.candidates: " in output
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == b""


def test_a_file_that_has_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, "exponential"))
    learner: Any = spec.learner
    facts = facts_of((5,))
    dataset = TensorDataset(torch.zeros(2, 5), torch.zeros(2))

    class Changed:
        def next(self) -> Any:
            (release,) = learner.releases(facts, scale=1.0)
            weights = torch.load(tmp_path / "bad.pt", weights_only=True)
            torch.save({**weights, "1.bias": torch.ones(1)}, tmp_path / "bad.pt")
            return release

    job = Job(facts, spec.model.build((5,), 1), readable(dataset), Path())
    with pytest.raises(PrivacyRefusal, match="that the plan has hashed, got others"):
        learner.fit(job, Changed())


class KeepsDeep(torch.nn.Linear):
    """Remembers inputs where `restoring` doesn't look: in an object of its own."""

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.seen = SimpleNamespace(total=torch.zeros(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen.total = self.seen.total + inputs.sum()
        return super().forward(inputs) + self.seen.total


def test_a_network_that_keeps_something_between_records_is_refused(tmp_path: Path) -> None:
    module = KeepsDeep()
    path = tmp_path / "weights.pt"
    torch.save(module.state_dict(), path)
    dataset = TensorDataset(torch.zeros(2, 2), torch.zeros(2))
    job = Job(facts_of(), module, readable(dataset), Path())
    with pytest.raises(PrivacyRefusal, match="keeps nothing between records"):
        candidate_networks(job, [path], [file_hash(path)])


def trained_candidate(folder: Path, name: str, *changes: str) -> Path:
    """Return the run directory of a model that was trained privately on the same records."""
    path = folder / f"{name}.yaml"
    data = (folder / "spec.yaml").read_text().split("model:")[0]
    path.write_text(
        f"{data}\nmodel: logistic\n"
        "learner: {kind: output_perturbation, regularization: 10.0}\n"
        "budget: {epsilon: 0.5, delta: 1.0e-5}\n"
    )
    return run_of(path, *changes, name=name)


def test_private_runs_behind_candidates_are_added_up(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "exponential")
    earlier = trained_candidate(tmp_path, "earlier")
    weights = earlier / "checkpoints" / "final.ckpt"
    alone = run_of(path, name="alone")
    # A copy elsewhere, under other names and in another file, is recognised as well.
    (tmp_path / "bad.pt").write_bytes(weights.read_bytes())
    run = run_of(path, name="both")
    own, both = (json.loads((each / "plan.json").read_text()) for each in (alone, run))
    assert own["earlier"] is None
    assert [one["run_dir"] for one in both["earlier"]["runs"]] == [str(earlier)]
    assert both["epsilon"] <= 1.0
    spent = [each["releases"][0]["event"]["epsilon"] for each in (own, both)]
    assert spent[1] < 0.75 * spent[0]
    assert verify_ledger(run).intact
    assert "Candidates have the weights of the private run" in (run / "privacy.md").read_text()
    disjoint = refused(path, "learner.records=disjoint")
    assert "learner.records: expected same" in disjoint
    plan = dppipe("plan", str(path)).output
    assert "weights of" in plan
    assert "added up" in plan


def test_runs_that_no_bound_covers_are_refused(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "exponential")
    trained_candidate(tmp_path, "plain", "budget=none")
    candidates = f"[{tmp_path}/plain/checkpoints/final.ckpt, {tmp_path}/good.pt]"
    found = refused(path, f"learner.candidates={candidates}")
    assert "learner.candidates: expected weights that were trained on other data" in found
    trained_candidate(tmp_path, "earlier")
    candidates = f"[{tmp_path}/earlier/checkpoints/final.ckpt, {tmp_path}/good.pt]"
    found = refused(path, f"learner.candidates={candidates}", "budget.relation=replace_one")
    assert "budget.relation: expected zero_out" in found
    found = refused(path, f"learner.candidates={candidates}", "budget.epsilon=0.4")
    assert "budget.epsilon: expected more than 0.5" in found
    found = refused(path, f"learner.candidates={candidates}", "budget.epsilon=0.5001")
    assert "is left, for which the noise would hide everything" in found


def test_weights_that_planning_cannot_see_are_found_when_they_are_loaded(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "exponential")
    earlier = trained_candidate(tmp_path, "earlier")
    weights = torch.load(earlier / "checkpoints" / "final.ckpt", weights_only=True)
    hidden = {}
    for name, value in weights.items():  # each a part of a longer storage, whose hash is another
        longer = torch.cat([value.flatten(), torch.ones(3)])
        hidden[name] = longer[: value.numel()].view(value.shape)
    torch.save(hidden, tmp_path / "bad.pt")
    done = dppipe("run", str(path), "--run-dir", str(tmp_path / "run"))
    assert done.exit_code == 3, done.output
    assert "expected weights that no private run has trained" in " ".join(done.output.split())
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == b""


def test_the_scale_is_one_over_epsilon(tmp_path: Path) -> None:
    learner = Exponential(candidates=(Path("a"), Path("b")), loss_bound=1.0, epsilon=0.25)
    assert learner.scale == 4.0
    spec = load_spec(write_spec(tmp_path, "exponential"))
    assert spec.learner.scale is None
    (release,) = spec.learner.releases(facts_of(), scale=4.0)
    assert release.event == exponential(0.25)


@pytest.mark.parametrize("kind", ["mean", "exponential"])
def test_a_plan_needs_no_torch_and_takes_less_than_three_seconds(tmp_path: Path, kind: str) -> None:
    assert_planned_without_torch(write_spec(tmp_path, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mean", "exponential"])
def test_its_recipe_runs_within_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)  # where the candidates are
    run = tmp_path / "run"
    done = dppipe("run", f"pipelines/learners/{kind}.yaml", "--run-dir", str(run))
    assert done.exit_code == 0, done.output
    summary = json.loads((run / "summary.json").read_text())
    assert 0.99 < summary["epsilon"] <= 1.0
    assert summary["certified"]
    assert verify_ledger(run).intact
    if kind == "exponential":
        assert summary["metrics"]["val/accuracy"] > 0.7
