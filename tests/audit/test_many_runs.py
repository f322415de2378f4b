"""The audit by many trainings: its bound, its threshold, and one small experiment."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from audit.one_run_specs import SMALL
from typer.testing import CliRunner

from dppipe.audit.counts import TwoWorlds
from dppipe.audit.many_runs import judge, p_value_of_counts
from dppipe.cli.app import app
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.blow_up import blow_up_of

CLAIM = blow_up_of(GaussianCurve(1.0))


def judged(without, inside):
    return judge(np.array(without), np.array(inside), CLAIM, claimed=4.38, delta=1e-5)


@pytest.mark.parametrize(
    ("runs", "most"), [(100, 3.2780), (250, 4.2050), (500, 4.9036), (1000, 5.5994), (5000, 7.2110)]
)
def test_a_perfect_attack_shows_so_much_at_most(runs, most):
    found = TwoWorlds(runs, runs, 0, runs).epsilon(delta=1e-5, error=0.05)
    assert found == pytest.approx(most, abs=5e-3)


def test_the_trainings_that_chose_the_threshold_are_not_counted():
    found = judged([0.0] * 10 + [5.0] * 40, [5.0] * 10 + [0.0] * 40)
    assert (found.counts.draws_with, found.counts.draws_without) == (40, 40)
    assert (found.counts.hits_with, found.counts.hits_without) == (0, 40)


def test_worlds_that_are_told_apart_reject_the_claim_and_equal_ones_do_not():
    apart = judged(np.linspace(0, 1, 500), np.linspace(5, 6, 500))
    assert apart.rejected
    assert apart.verdict.startswith("CLAIM REJECTED (p = ")
    assert apart.epsilon_lower == apart.ceiling
    equal = judged(np.linspace(0, 1, 500), np.linspace(0, 1, 500))
    assert not equal.rejected
    assert equal.epsilon_lower == 0
    assert equal.verdict.startswith("no contradiction; ")


def test_the_p_value_is_where_the_counts_begin_to_contradict():
    counts = TwoWorlds(90, 100, 20, 100)
    p_value = p_value_of_counts(counts, CLAIM)
    assert counts.contradicts(CLAIM, error=p_value)
    assert not counts.contradicts(CLAIM, error=p_value * 0.99)


def test_a_correct_claim_is_rejected_no_more_often_than_stated():
    """Exact: every pair of counts of 30 draws, weighted by its chance under the claim's worst case."""
    from scipy import stats

    draws = 30
    false_positives = 0.2
    true_positives = float(CLAIM(false_positives))
    chances = [
        stats.binom.pmf(np.arange(31), draws, rate) for rate in (true_positives, false_positives)
    ]
    wrong = 0.0
    for hits in range(draws + 1):
        for false in range(draws + 1):
            chance = chances[0][hits] * chances[1][false]
            if chance > 1e-9 and TwoWorlds(hits, draws, false, draws).contradicts(
                CLAIM, error=0.05
            ):
                wrong += chance
    assert wrong <= 0.05


@pytest.mark.slow
def test_a_small_experiment_runs_from_the_command_line(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(SMALL | {"train": {"steps": 2}}))
    words = ["audit", str(path), "--runs", "10", "--out", str(tmp_path / "many"), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (0, 4), done.output
    found = json.loads((tmp_path / "many" / "audit.json").read_text())
    assert json.loads(done.stdout) == found
    assert found["counts"]["draws_with"] == 8
    assert [file.name for file in (tmp_path / "many").iterdir()] == ["audit.json"]


def test_too_few_runs_are_refused(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(SMALL))
    done = CliRunner().invoke(app, ["audit", str(path), "--runs", "3"])
    assert done.exit_code == 2
    assert "--runs: expected at least 10 trainings a world, got 3" in done.output
