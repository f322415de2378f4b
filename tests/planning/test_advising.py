"""`dppipe advise`: its rows keep the budget, cost what `account` says, and rest on the shipped table."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import UsageError
from dppipe.planning.advising.advice import advise
from dppipe.planning.advising.batches import CLOSE, Facts, batch_rows, proposed
from dppipe.planning.advising.learners import learner_advice
from dppipe.planning.privacy_plan import make_plan
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.spec.load import spec_from_text

FACTS = Facts(records=1437, epsilon=3.0, delta=1e-5, examples_seen=14370, dimension=650)


@pytest.fixture(scope="module")
def rows():
    return batch_rows(FACTS)


def test_each_row_sees_the_planned_examples_and_keeps_the_budget(rows):
    for row in rows:
        assert row.steps == FACTS.examples_seen // row.batch_size
        assert row.sample_rate == row.batch_size / FACTS.records
        assert row.noise_to_batch == row.noise_multiplier / row.batch_size
        assert row.noise_norm == pytest.approx(row.noise_to_batch * math.sqrt(650))
        assert 0.99 * FACTS.epsilon < row.epsilon <= FACTS.epsilon
    assert rows[-1].batch_size == FACTS.records


def test_a_rows_epsilon_is_confirmed_by_another_accountant(rows):
    import dp_accounting

    row = rows[-1]  # without sampling, the Renyi bound is close
    steps = [(dp_accounting.GaussianDpEvent(row.noise_multiplier), row.steps)]
    bound = Rdp().compose(steps, relation="zero_out").epsilon(FACTS.delta)
    assert row.epsilon <= bound <= 1.25 * row.epsilon


def test_larger_batches_have_less_noise_at_fixed_examples_seen(rows):
    for smaller, larger in itertools.pairwise(rows):
        assert larger.noise_to_batch < smaller.noise_to_batch
        assert larger.total_noise < 1.01 * smaller.total_noise


def test_the_proposed_batch_is_the_smallest_with_little_total_noise(rows):
    chosen = proposed(rows)
    least = min(row.total_noise for row in rows)
    assert chosen.total_noise <= CLOSE * least
    for row in rows:
        if row.batch_size < chosen.batch_size:
            assert row.total_noise > CLOSE * least


@pytest.mark.parametrize("relation", ["zero_out", "add_remove"])
def test_the_proposed_blocks_are_a_spec_that_plans_to_the_same_cost(relation, few):
    facts = Facts(1000, 2.0, 1e-5, 4000, relation)
    advice = advise(facts)
    data = "split: {train: 1.0, val: 0.0, test: 0.0}"
    spec = spec_from_text(
        f"version: 1\nname: x\ndata: {{kind: synthetic, size: 1000, {data}}}\n"
        f"model: logistic\noptimizer: {{kind: sgd, lr: 0.1}}\n{advice.spec()}\n"
    )
    plan = make_plan(spec)
    assert plan.steps == advice.chosen.steps
    assert plan.noise_multiplier(1) == pytest.approx(advice.chosen.noise_multiplier, rel=1e-4)
    assert plan.epsilon == pytest.approx(advice.chosen.epsilon, rel=1e-4)


@pytest.mark.parametrize(
    ("records", "dimension", "epsilon", "task", "measured"),
    [(1500, 700, 0.2, "digits", 0.1), (30000, 70, 2.5, "adult", 3.0)],
)
def test_learners_are_those_of_the_nearest_measured_task(
    records, dimension, epsilon, task, measured
):
    found = learner_advice(Facts(records, epsilon, 1e-6, 10 * records, dimension=dimension))
    assert (found.task, found.epsilon, found.far) == (task, measured, False)
    means = [row.mean for row in found.rows]
    assert means == sorted(means, reverse=True)
    for row in found.rows:
        assert row.epsilon is not None, row.learner
        assert row.epsilon <= epsilon
    for row in found.rows:
        if row.steps is not None and row.steps * records > 10 * records:
            assert "more examples" in row.note


def test_a_network_far_larger_than_any_measured_one_is_trained_by_dp_sgd(few):
    advice = advise(Facts(50, 1.0, 1e-3, 50, dimension=10_000_000))
    assert advice.learners.far
    assert advice.learner == "dp_sgd"
    assert any("fewer" in reason for reason in advice.reasons())
    assert any("train fewer weights" in reason for reason in advice.reasons())


def test_a_delta_that_protects_nobody_is_refused():
    with pytest.raises(UsageError, match="--delta"):
        Facts(1000, 1.0, 1e-3, 1000)


@pytest.fixture
def few(monkeypatch):
    """Try few batch sizes, to be quick."""
    monkeypatch.setattr("dppipe.planning.advising.batches._ROWS", 2)


def command(*words):
    base = ["--records", "200", "--epsilon", "1", "--delta", "1e-4", "--examples-seen", "400"]
    return CliRunner().invoke(app, ["advise", *base, *words])


def test_advice_fits_80_columns_and_is_the_same_for_programs(few):
    shown = command("--dimension", "50")
    assert shown.exit_code == 0, shown.output
    too_wide = [line for line in shown.output.splitlines() if len(line) > 80]
    assert not too_wide
    data = json.loads(command("--dimension", "50", "--json").output)
    assert data["chosen"] in data["batches"]
    assert f"*{data['chosen']['batch_size']} " in shown.output
    assert data["spec"] in shown.output
    assert data["learner"] in shown.output


@pytest.mark.parametrize(
    ("words", "place"),
    [(["--epsilon", "-1"], "--epsilon"), (["--relation", "zeroout"], "--relation")],
)
def test_options_out_of_range_are_errors_of_the_user(words, place):
    result = command(*words)
    assert result.exit_code == 2
    assert place in result.stderr


@pytest.mark.slow
def test_advice_imports_no_torch():
    code = (
        "import sys; from dppipe.planning.advising.advice import advise;"
        "from dppipe.planning.advising.batches import Facts;"
        "advise(Facts(50, 1.0, 1e-3, 2));"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
