"""The plan of a private search: it lands on the budget, and holds what each candidate may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.privacy_plan import make_plan
from dppipe.planning.step_plan import plan_from_json
from dppipe.planning.tuning import candidate_events
from dppipe.planning.tuning.candidate_events import shared_weights
from dppipe.planning.tuning.candidate_plan import plan_candidate
from dppipe.planning.tuning.make_tune_plan import make_tune_plan
from dppipe.planning.tuning.tune_plan import TunePlan
from dppipe.privacy.accountants import Pld
from dppipe.privacy.charges import Charge
from dppipe.runs.ledger import Ledger
from dppipe.runs.verify import verify_ledger
from dppipe.spec import Spec, load_spec

QUICKSTART = Path(__file__).parents[2] / "pipelines" / "quickstart.yaml"
TUNE = (
    "tune.candidates={optimizer.lr: [0.1, 0.25], clipping.max_grad_norm: [0.5, 1.0]}",
    "tune.repetitions={mean: 10}",
)


def searched(*overrides: str) -> Spec:
    return load_spec(QUICKSTART, overrides=[*TUNE, *overrides])


@pytest.fixture(scope="module")
def plan() -> TunePlan:
    return make_tune_plan(searched())


@pytest.mark.parametrize(("shape", "z", "one_run"), [(0, 3.891, 2.0402), (1, 4.125, 1.9043)])
def test_noise_lands_on_the_budget_of_the_whole_search(
    shape: int, z: float, one_run: float
) -> None:
    made = make_tune_plan(searched(f"tune.repetitions.shape={shape}"))
    (noise,) = {one.noise_multiplier for one in made.search.candidates}
    assert noise == pytest.approx(z, abs=1e-3)
    assert made.epsilon is not None
    assert 2.995 <= made.epsilon <= 3.0
    costs = made.search.costs
    assert costs.by_curve == made.epsilon
    assert costs.one_run == pytest.approx(one_run, abs=1e-3)
    assert costs.by_rdp is not None
    assert costs.all_runs is not None
    assert costs.one_run is not None
    assert costs.one_run < made.epsilon < costs.by_rdp < costs.all_runs


def test_candidates_with_different_curves_are_fitted_together() -> None:
    made = make_tune_plan(
        searched(
            "tune.candidates=[{train.epochs: 2}, {sampler.expected_batch_size: 32}]",
            "tune.weights=[1, 3]",
            "accountant=rdp",
        )
    )
    first, second = made.search.candidates
    assert first.noise_multiplier != second.noise_multiplier
    assert made.epsilon is not None
    assert made.epsilon <= 3.0
    event = made.selection.dp_event
    assert type(event.event).__name__ == "OneOfDpEvent"
    assert event.event.weights == (0.25, 0.75)


def test_a_private_score_gets_noise_that_costs_nothing(plan: TunePlan) -> None:
    made = make_tune_plan(searched("data.holdout=private"))
    std = made.search.score.noise_std
    assert std is not None
    assert 1 < std < 4
    assert made.epsilon == pytest.approx(plan.epsilon, abs=1e-6)
    inside = made.selection.dp_event.event
    assert type(inside).__name__ == "DisjointDpEvent"
    assert inside.events[1].noise_multiplier == std


def test_too_little_noise_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match=r"tune\.score\.noise_std: .* they alone cost"):
        make_tune_plan(searched("data.holdout=private", "tune.score.noise_std=0.3"))
    with pytest.raises(PrivacyRefusal, match=r"budget\.epsilon: .* what the search costs"):
        make_tune_plan(searched("noise.noise_multiplier=2"))


def test_what_is_released_once_comes_first_and_is_composed(plan: TunePlan) -> None:
    made = make_tune_plan(
        searched("data.normalize={kind: private, noise_multiplier: 10}", "accountant=rdp")
    )
    assert [release.what for release in made.releases] == ["statistics", "selection"]
    assert made.epsilon is not None
    assert made.epsilon <= 3.0
    assert 0 < made.epsilon_after(1) < made.epsilon_after(2) == made.epsilon


def test_a_plan_reads_back_as_what_it_is(plan: TunePlan) -> None:
    assert plan_from_json(plan.to_json()) == plan


def test_a_candidate_s_own_plan_is_what_the_search_has_paid_for(plan: TunePlan) -> None:
    spec, own = plan_candidate(searched(), plan, 2)
    assert spec.optimizer is not None
    assert (spec.optimizer.lr, spec.clipping.max_grad_norm) == (0.25, 0.5)
    assert spec.tune is None
    assert own.epsilon == pytest.approx(plan.search.costs.one_run)
    with pytest.raises(PrivacyRefusal, match="paid for"):
        plan_candidate(searched("train.epochs=21"), plan, 2)


def test_one_run_of_a_search_is_not_planned(plan: TunePlan) -> None:
    from dppipe.pipeline.run import run_spec

    with pytest.raises(UsageError, match="dppipe tune"):
        make_plan(searched())
    with pytest.raises(UsageError, match="a private search"):
        run_spec(searched(), plan)


@pytest.mark.parametrize(
    "learner",
    [
        "learner: {kind: subsample_aggregate, blocks: 20, radius: 1.0, inner: {kind: ridge, "
        "regularization: 1.0}}\nmodel: logistic\n",
        "learner: {kind: output_perturbation, regularization: 10.0}\nmodel: logistic\n",
    ],
)
def test_learners_without_steps_are_searched_too(tmp_path: Path, learner: str) -> None:
    text = (
        f"version: 1\nname: other\ndata: {{kind: breast_cancer, holdout: public}}\n{learner}"
        "budget: {epsilon: 2.0, delta: 1.0e-5}\n"
        "tune: {candidates: [{}], repetitions: {mean: 3}, score: {metric: loss}}\n"
    )
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    spec = load_spec(path)
    made = make_tune_plan(spec)
    assert made.epsilon is not None
    assert 1.9 < made.epsilon <= 2.0
    plan_candidate(spec, made, 0)


def test_a_ledger_of_a_search_is_verified_from_its_row(tmp_path: Path, plan: TunePlan) -> None:
    (tmp_path / "plan.json").write_bytes(plan.to_json())
    (tmp_path / "config.yaml").write_text(searched().to_yaml())
    release = plan.selection.release()
    assert plan.relation is not None
    assert plan.epsilon is not None
    row = Charge(
        what=release.what,
        event=release.event,
        relation=plan.relation,
        unit=plan.unit,
        count=1,
        epsilon=plan.epsilon,
        facts=release.facts,
    )
    with Ledger.create(tmp_path / "ledger.jsonl", plan=plan.to_json()) as ledger:
        ledger.charge(row)
        known = {"ledger_head": ledger.head, "charged": ledger.charged}
    (tmp_path / "summary.json").write_text(json.dumps(known))
    found = verify_ledger(tmp_path)
    assert found.faults == ()
    assert found.certified
    assert found.epsilon == pytest.approx(plan.epsilon)
    by_rdp = verify_ledger(tmp_path, accountant="rdp").epsilon
    assert by_rdp == pytest.approx(plan.search.costs.by_rdp)
    assert Pld().compose([(release.event, 1)], relation="zero_out").epsilon(1e-5) == found.epsilon


def invoke(*arguments: str) -> Any:
    tuned = [part for override in TUNE for part in ("--set", override)]
    return CliRunner().invoke(app, [*arguments, str(QUICKSTART), *tuned])


def test_plan_says_first_to_tune_on_public_data_and_what_the_search_costs() -> None:
    result = invoke("plan")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Tune on public data first")
    for said in ("10 on average", "81 or fewer", "3.891", "by Renyi divergences", "10 runs, every"):
        assert said in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_run_names_the_command_for_a_search() -> None:
    result = invoke("run")
    assert result.exit_code == 2
    assert "dppipe tune" in result.output


def test_candidates_that_choose_among_files_of_other_private_runs_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their cost would differ, and the plan counts one of them for all."""
    monkeypatch.chdir(QUICKSTART.parents[1])
    learner = "pipelines/learners/exponential.yaml"
    files = [f"pipelines/learners/candidates/{name}.pt" for name in ("size", "shape")]
    one = load_spec(learner)
    other = load_spec(learner, overrides=[f"learner.candidates=[{', '.join(files)}]"])
    monkeypatch.setattr(candidate_events, "recognise", lambda spec: len(spec.learner.candidates))
    assert shared_weights(one, [one, one]) == 4  # type: ignore[comparison-overlap]
    with pytest.raises(PrivacyRefusal, match="different private runs"):
        shared_weights(one, [one, other])
