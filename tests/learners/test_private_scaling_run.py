"""Runs that scale inputs by private statistics: charged once, before the first step, in the same ledger and budget."""

from __future__ import annotations

import json
import math
import os
import signal

import dp_accounting
import numpy
import pytest
import torch
from private_steps import release_statistics
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.clipping import Flat
from dppipe.data.base import Splits
from dppipe.data.reading.bounded_statistics import Histograms
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.data.reading.scaling import Constants
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.inputs.model_inputs import ModelInputs
from dppipe.learners.inputs.scaling import ScalingStage
from dppipe.learners.plain_gate import PlainGate
from dppipe.learners.ranks import Ranks
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants import Gdp, Pld, Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.gaussian import gaussian_epsilon
from dppipe.runs.directory import RunDirectory
from dppipe.runs.ledger import Ledger
from dppipe.runs.record import RunRecord
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import FullBatch, Poisson, User

PRIVATE = ["data.normalize={kind: private, noise_multiplier: 10, lower: -4, upper: 4}"]
HISTOGRAMS = ["data.normalize={kind: private, noise_multiplier: 10, lower: -4, upper: 4, bins: 32}"]


def plan(
    z=2.0,
    *,
    sampler=None,
    accountant=None,
    epsilon=10.0,
    scaling=5.0,
    relation="zero_out",
    **length,
):
    budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)
    chosen = (
        sampler or FullBatch(),
        Flat(),
        Constant(noise_multiplier=z),
        accountant or Gdp(),
        budget,
    )
    preludes = (PrivateScaling(noise_multiplier=scaling),) if scaling else ()
    parts = PrivateParts(*chosen, preludes=preludes)
    return plan_privacy(parts, name="t", records=1000, **length), parts


def test_steps_and_statistics_are_paid_for_together():
    made, parts = plan(steps=8)
    assert made.epsilon == pytest.approx(
        gaussian_epsilon(1 / math.sqrt(8 / 4 + 1 / 25), 1e-5), rel=1e-6
    )
    assert made.epsilon_after(0) == pytest.approx(gaussian_epsilon(5.0, 1e-5), rel=1e-6)
    assert made.epsilon_after(0) < made.epsilon_after(1) < made.epsilon
    assert parts.committed(made)[0] == (dp_accounting.GaussianDpEvent(5.0), 1)


@pytest.mark.parametrize(
    "accountant",
    [pytest.param(Pld(), marks=pytest.mark.slow, id="pld"), pytest.param(Rdp(), id="rdp")],
)
def test_auto_noise_leaves_room_for_the_statistics(accountant):
    sampler = Poisson(sample_rate=0.1)
    with_statistics, parts = plan(
        "auto", sampler=sampler, accountant=accountant, epsilon=2.0, steps=50
    )
    without, _ = plan(
        "auto", sampler=sampler, accountant=accountant, epsilon=2.0, steps=50, scaling=None
    )
    assert with_statistics.noise_multiplier(1) > without.noise_multiplier(1)
    composed = accountant.compose(parts.committed(with_statistics), relation="zero_out")
    assert 1.99 < composed.epsilon(1e-5) <= 2.0


def test_a_run_until_the_budget_has_fewer_steps():
    with_statistics, _ = plan(epsilon=4.0)
    without, _ = plan(epsilon=4.0, scaling=None)
    assert 0 < with_statistics.steps <= without.steps
    assert with_statistics.epsilon <= 4.0


@pytest.mark.parametrize("z", [2.0, "auto"])
def test_statistics_that_use_up_the_budget_are_refused_by_name(z):
    with pytest.raises(
        PrivacyRefusal, match=r"data.normalize.noise_multiplier: .* got 0.5, at which they cost"
    ):
        plan(z, scaling=0.5, epsilon=2.0, steps=8)


def test_a_secret_number_of_records_allows_no_statistics():
    with pytest.raises(PrivacyRefusal, match=r"data\.normalize"):
        plan(
            sampler=Poisson(sample_rate=0.1, expected_batch_size=100),
            accountant=Pld(),
            relation="add_remove",
            steps=5,
        )


def released(tmp_path, *, z, seed=None, features=None, count=200, bins=None):
    inputs = torch.from_numpy(
        numpy.random.default_rng(0).uniform(size=(count, 4)).astype(numpy.float32)
    )
    train = torch.utils.data.TensorDataset(inputs.clone(), torch.zeros(count))
    budget = Budget(epsilon=1e9, delta=1e-5)
    scaling = PrivateScaling(noise_multiplier=z, bins=bins)
    parts = PrivateParts(
        FullBatch(), Flat(), Constant(noise_multiplier=1.0), Rdp(), budget, (scaling,)
    )
    made = plan_privacy(parts, name="t", records=count, steps=2)
    tmp_path.mkdir(exist_ok=True)
    ledger = Ledger.create(tmp_path / "ledger.jsonl", plan=made.to_json())
    data = ModelInputs([ScalingStage(scaling, features)], Splits(train, None, None))
    constants = release_statistics(data, parts, made, ledger, RunDirectory(tmp_path), seed=seed)
    scaled = inputs.numpy().copy()
    constants.apply(scaled)
    assert torch.equal(train.tensors[0], torch.from_numpy(scaled))
    return constants, inputs, ledger


@pytest.mark.parametrize(
    "missing", [(), (1,), (2,), (1, 2)], ids=["all splits", "no val", "no test", "train alone"]
)
def test_every_split_is_scaled_alike(missing, tmp_path):
    parts = [
        torch.utils.data.TensorDataset(torch.full((2, 3), 5.0), torch.zeros(2)) for _ in range(3)
    ]
    splits = Splits(*(None if place in missing else part for place, part in enumerate(parts)))
    stage = ScalingStage(PrivateScaling(noise_multiplier=1.0))
    run = RunDirectory(tmp_path)
    stage.write(run, Constants(mean=(1.0, 3.0, 5.0), std=(2.0, 1.0, 4.0)))
    inputs = ModelInputs([stage], splits)
    inputs.prepare(plan(steps=2)[0], run, PlainGate(plan(steps=2)[0]), ranks=Ranks())
    for part in inputs.splits:
        assert part is None or part.tensors[0].tolist() == [[2.0, 2.0, 0.0]] * 2


def test_what_is_released_is_near_the_truth_at_little_noise(tmp_path):
    constants, inputs, ledger = released(tmp_path, z=1e-3)
    assert constants.mean == pytest.approx(inputs.mean(0).tolist(), abs=1e-3)
    assert (ledger.rows, ledger.step, ledger.charged) == (1, 0, 1)


def test_noise_has_the_standard_deviation_that_is_charged(tmp_path):
    """60 releases of 4 means each; the deviation within 5 standard errors: false alarms below 1e-6."""
    errors = []
    for number in range(60):
        constants, inputs, _ = released(tmp_path / str(number), z=0.5, count=2000)
        errors += ((numpy.array(constants.mean) - inputs.mean(0).numpy()) * 2 * 2000).tolist()
    expected = 0.5 * math.sqrt(1.25 * 4)
    assert abs(numpy.square(errors).mean() / expected**2 - 1) < 5 * math.sqrt(2 / len(errors))


def test_only_the_features_that_are_asked_for_are_released(tmp_path):
    constants, _, _ = released(tmp_path, z=1.0, features=2)
    assert constants.mean[2:] == (0.0, 0.0)
    assert constants.std[2:] == (1.0, 1.0)


def of_users(tmp_path, users):
    """Release the means of 100 records at next to no noise: 90 of ones, then 10 of zeros."""
    inputs = torch.cat([torch.ones(90, 2), torch.zeros(10, 2)])
    train = torch.utils.data.TensorDataset(inputs, torch.zeros(100))
    if users is not None:
        train.users = users
    return release_of_users(tmp_path, train, PrivateScaling(noise_multiplier=1e-6), users=2)


def release_of_users(tmp_path, train, scaling, *, users):
    budget = Budget(epsilon=1e15, delta=1e-5)
    parts = PrivateParts(
        User(sample_rate=0.5), Flat(), Constant(noise_multiplier=1.0), Rdp(), budget, (scaling,)
    )
    made = plan_privacy(parts, name="t", records=users, steps=2)
    ledger = Ledger.create(tmp_path / "ledger.jsonl", plan=made.to_json())
    data = ModelInputs([ScalingStage(scaling)], Splits(train, None, None))
    return release_statistics(data, parts, made, ledger, RunDirectory(tmp_path)), ledger


def test_a_user_counts_once_in_the_statistics_however_many_records_there_are(tmp_path):
    constants, _ = of_users(tmp_path, [7] * 90 + [3] * 10)
    assert constants.mean == pytest.approx((0.5, 0.5), abs=1e-3)


@pytest.mark.parametrize("bins", [None, 64])
def test_how_many_records_users_have_changes_no_statistic_of_theirs(tmp_path, bins):
    """Five users with inputs far from the middle of the range, at next to no noise."""
    found = []
    for number, counts in enumerate([(1,) * 5, (1, 1, 40, 1, 1), (30,) * 5]):
        own = torch.tensor([[0.9], [0.8], [0.95], [0.85], [0.9]])
        inputs = own.repeat_interleave(torch.tensor(counts), dim=0)
        train = torch.utils.data.TensorDataset(inputs, torch.zeros(len(inputs)))
        train.users = [user for user, count in enumerate(counts) for _ in range(count)]
        (tmp_path / str(number)).mkdir()
        scaling = PrivateScaling(noise_multiplier=1e-6, bins=bins)
        constants, _ = release_of_users(tmp_path / str(number), train, scaling, users=5)
        found.append((*constants.mean, *constants.std))
    assert found[1] == pytest.approx(found[0], abs=1e-3)
    assert found[2] == pytest.approx(found[0], abs=1e-3)
    assert found[0][0] == pytest.approx(0.88, abs=0.03)


def test_statistics_of_users_are_not_released_where_nobody_says_whose_records_are(tmp_path):
    with pytest.raises(UsageError, match="whose each record is"):
        of_users(tmp_path, None)
    assert not (tmp_path / "ledger.jsonl").read_bytes()


def test_a_second_start_reads_what_the_first_has_released(tmp_path):
    first, _, ledger = released(tmp_path, z=1.0)
    train = torch.utils.data.TensorDataset(torch.full((1, 4), 0.9))
    stage = ScalingStage(PrivateScaling(noise_multiplier=1.0))
    data = ModelInputs([stage], Splits(train, None, None))
    made, parts = plan(steps=2)
    again = release_statistics(data, parts, made, ledger, RunDirectory(tmp_path))
    assert again == first
    assert ledger.rows == 1


def test_statistics_that_were_charged_and_lost_are_not_released_again(tmp_path):
    _, _, ledger = released(tmp_path, z=1.0)
    (tmp_path / "statistics.json").unlink()
    train = torch.utils.data.TensorDataset(torch.zeros(1, 4))
    stage = ScalingStage(PrivateScaling(noise_multiplier=1.0))
    data = ModelInputs([stage], Splits(train, None, None))
    made, parts = plan(steps=2)
    with pytest.raises(PrivacyRefusal, match="was charged, and its value was lost"):
        release_statistics(data, parts, made, ledger, RunDirectory(tmp_path))
    assert ledger.rows == 1


def test_a_run_charges_its_statistics_first_and_its_statement_says_so(run):
    done = run(*PRIVATE)
    assert done.exit_code == 0, done.output
    first, second = done.rows[:2]
    assert (first["row"], first["what"], first["count"]) == (1, "statistics", 1)
    assert first["event"] == {"type": "GaussianDpEvent", "noise_multiplier": 10.0}
    assert first["facts"]["noise_multiplier"] == 10.0
    assert (second["row"], second["step"]) == (2, 1)
    assert (done.summary["steps"], done.summary["charged"]) == (10, 11)
    assert verify_ledger(done.path).intact
    assert "released with noise (multiplier 10)" in (done.path / "privacy.md").read_text()
    released_values = json.loads((done.path / "statistics.json").read_text())
    assert len(released_values["mean"]) == 8
    shown = CliRunner().invoke(app, ["evaluate", str(done.path), "--json"])
    assert shown.exit_code == 0, shown.output


def test_scaled_inputs_are_what_is_trained_on(run):
    """Inputs around 1000 can't be learned from as they are; scaled, they can."""
    shifted = "data={kind: synthetic, size: 1000, features: 8, classes: 3, holdout: public, normalize: %s}"
    constants = run(shifted % "{mean: -1000, std: 0.001}", "train.steps=60").summary["metrics"][
        "val/accuracy"
    ]
    private = run(*PRIVATE, "train.steps=60").summary["metrics"]["val/accuracy"]
    assert constants < 0.7 < private


def test_a_resumed_run_pays_for_its_statistics_once(run, monkeypatch):
    step = RunRecord.step

    def then_signal(record, **facts):
        step(record, **facts)
        if record.ledger.step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signal)
        stopped = run(*PRIVATE)
    assert stopped.exit_code == 130, stopped.output
    before = (stopped.path / "statistics.json").read_bytes()
    done = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert done.exit_code == 0, done.output
    assert [row.get("step") for row in stopped.rows] == [None, *range(1, 11)]
    assert stopped.rows[0]["what"] == "statistics"
    assert (stopped.path / "statistics.json").read_bytes() == before
    assert stopped.summary["charged"] == 11


def test_without_a_budget_nothing_is_charged_or_noised(run):
    done = run(*PRIVATE, "budget=none")
    assert done.exit_code == 0, done.output
    assert done.rows == []
    assert (done.path / "statistics.json").exists()


def test_a_run_charges_its_histograms_as_it_would_means_and_says_so(run):
    done, means = run(*HISTOGRAMS), run(*PRIVATE)
    assert done.exit_code == 0, done.output
    first, other = done.rows[0], means.rows[0]
    assert (first["row"], first["what"], first["epsilon"]) == (1, "statistics", other["epsilon"])
    assert first["event"] == other["event"]
    assert first["facts"]["statistics"] == "medians and quartiles (histograms of 32 bins)"
    assert first["facts"]["noise_multiplier"] == 10.0
    assert first["facts"]["sensitivity"] == pytest.approx(math.sqrt(8))
    assert verify_ledger(done.path).intact
    shown = CliRunner().invoke(app, ["ledger", "verify", str(done.path)])
    assert shown.exit_code == 0, shown.output
    assert "histograms of 32 bins" in (done.path / "privacy.md").read_text()
    assert len(json.loads((done.path / "statistics.json").read_text())["std"]) == 8


def test_the_plan_shows_histograms_and_what_they_cost(run, tmp_path):
    shown = CliRunner().invoke(app, ["plan", str(tmp_path / "spec.yaml"), "--set", *HISTOGRAMS])
    assert shown.exit_code == 0, shown.output
    assert "histograms of 32 bins), noise multiplier 10: epsilon " in " ".join(shown.output.split())


@pytest.mark.parametrize(
    ("bins", "got"), [("3", "3"), ("5000", "5000"), ("many", "'many'"), ("2.5", "2.5")]
)
def test_histograms_that_can_not_be_are_refused_at_their_line(run, tmp_path, bins, got):
    text = (tmp_path / "spec.yaml").read_text()
    asked = f"holdout: public, normalize: {{kind: private, noise_multiplier: 9, bins: {bins}}}}}"
    (tmp_path / "spec.yaml").write_text(text.replace("holdout: public}", asked))
    shown = CliRunner().invoke(app, ["validate", str(tmp_path / "spec.yaml")])
    assert shown.exit_code == 2, shown.output
    assert "data.normalize.bins: expected " in shown.output
    assert f"got {got}" in shown.output
    assert ":5:" in shown.output


def test_noise_on_each_count_of_a_histogram_is_what_is_charged(tmp_path, monkeypatch):
    """2048 counts; the deviation of their noise within 5 standard errors: false alarms below 1e-5."""
    seen, read = [], Histograms.centre_and_spread
    monkeypatch.setattr(
        Histograms, "centre_and_spread", lambda self, noisy: seen.append(noisy) or read(self, noisy)
    )
    _, inputs, _ = released(tmp_path, z=0.5, bins=512)
    exact = PrivateScaling(noise_multiplier=0.5, bins=512).total(inputs.numpy(), None)
    errors = seen[0] * 200 - exact
    assert abs(numpy.square(errors).mean() / (0.5 * math.sqrt(4)) ** 2 - 1) < 5 * math.sqrt(
        2 / 2048
    )
