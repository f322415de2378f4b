"""`dppipe compare`: what is read from run directories, and how runs of one name are put together."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.cli.compare import comparison_text
from dppipe.errors import UsageError
from dppipe.privacy.accountants.base import Certificate
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.limits_of_cost import limits_of_cost
from dppipe.report.compare import compare_runs, find_runs


@pytest.fixture
def runs(tmp_path):
    """Write run directories with nothing but a plan and, where one is given, a summary."""

    def write(name, run, *, epsilon=3.0, delta=1e-5, **summary):
        path = tmp_path / "runs" / name / run
        path.mkdir(parents=True)
        (path / "plan.json").write_text(json.dumps({"name": name, "delta": delta}))
        if summary:
            (path / "summary.json").write_text(
                json.dumps({"epsilon": epsilon, "delta": delta, "steps": 5} | summary)
            )
        return path

    write("flat", "1", status="completed", metrics={"val/accuracy": 0.90})
    write(
        "flat", "2", status="completed", metrics={"val/accuracy": 0.94}, test={"test/accuracy": 0.8}
    )
    write("adaptive", "1", status="interrupted", metrics={"val/accuracy": 0.5})
    write(
        "adaptive",
        "2",
        status="budget_exhausted",
        metrics={"nonprivate/val/accuracy": 0.7},
        epsilon=2.5,
    )
    write("adaptive", "3")
    write("free", "1", status="completed", metrics={"val/accuracy": 0.99}, epsilon=None, delta=None)
    return tmp_path / "runs"


def command(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_runs_of_one_name_stand_together_with_mean_and_spread(runs):
    adaptive, flat, free = compare_runs(find_runs([runs]))
    assert (flat.name, flat.runs, flat.statuses) == ("flat", 2, {"completed": 2})
    assert flat.metrics["val/accuracy"].mean == pytest.approx(0.92)
    assert flat.metrics["val/accuracy"].deviation == pytest.approx(0.04 / 2**0.5)
    assert flat.metrics["test/accuracy"].deviation is None
    assert adaptive.statuses == {"interrupted": 1, "budget_exhausted": 1, "unfinished": 1}
    assert (adaptive.epsilon.least, adaptive.epsilon.most) == (2.5, 3.0)
    assert not free.private


def test_a_run_that_is_named_twice_counts_once(runs):
    (flat,) = compare_runs(find_runs([runs / "flat", runs / "flat" / "1"]))
    assert flat.runs == 2


def test_the_table_says_what_is_not_private_and_fits_what_it_holds(runs):
    result = command(runs / "flat", runs / "free")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].split() == ["name", "runs", "epsilon", "val/accuracy", "test/accuracy"]
    assert any("0.9200 +- 0.0283" in line and line.startswith("flat") for line in lines)
    assert any("NOT PRIVATE" in line and line.startswith("free") for line in lines)


def test_what_would_be_wider_than_80_columns_is_one_block_for_each_name(runs):
    adaptive, flat, free, shared = command(runs).output.rstrip().split("\n\n")
    assert max(map(len, command(runs).output.splitlines())) <= 80
    assert [line.split() for line in adaptive.splitlines()[:2]] == [
        ["name", "adaptive"],
        ["runs", "3"],
    ]
    assert "1 interrupted, 1 budget exhausted, 1 unfinished" in adaptive
    assert "2.5 to 3" in adaptive
    assert "0.9200 +- 0.0283" in flat
    assert "nonprivate" not in flat
    assert "NOT PRIVATE" in free
    assert shared == "all: delta 1e-05"


def test_what_differs_between_runs_is_a_column_and_the_rest_is_said_once(runs):
    assert (
        command(runs / "flat", runs / "free").output.splitlines()[-1]
        == "all: ended completed, delta 1e-05"
    )
    (other,) = command(runs / "flat").output.splitlines()[1:]
    assert other.split()[:5] == ["flat", "2", "completed", "3", "1e-05"]


def test_a_failed_run_claims_nothing(tmp_path):
    path = tmp_path / "runs"
    path.mkdir()
    (path / "plan.json").write_text(json.dumps({"name": "flat", "delta": 1e-5}))
    (path / "summary.json").write_text(json.dumps({"epsilon": 3.0, "steps": 5, "status": "failed"}))
    [compared] = compare_runs(find_runs([path]))
    assert compared.epsilon is None
    assert "NO CLAIM" in comparison_text([compared])


def limits(rate):
    """Return what `privacy.json` says of attackers: `rate` at 1 % false alarms."""
    curve = Certificate("gdp", "zero_out", GaussianCurve(mu=1.0))
    known = limits_of_cost(curve, delta=1e-5).model_dump(mode="json")
    known["membership"][1]["true_positive_rate"] = rate
    return {"attack_limits": known}


def test_what_any_attacker_reaches_is_a_column_where_every_run_has_such_a_limit(runs):
    (runs / "flat" / "1" / "privacy.json").write_text(json.dumps(limits(0.0517)))
    assert "TPR" not in command(runs / "flat").output
    (runs / "flat" / "2" / "privacy.json").write_text(json.dumps(limits(0.06001)))
    assert "TPR at FPR 1 %  5.17 % to 6.01 %\n" in command(runs / "flat").output
    (flat,) = json.loads(command(runs / "flat", "--json").output)
    spread = flat["tpr_at_fpr_1_percent"]
    assert (spread["least"], spread["most"]) == (0.0517, 0.06001)


@pytest.mark.parametrize("said", [{"attack_limits": None}, {}])
def test_a_run_that_claims_nothing_has_no_limit(runs, said):
    (runs / "free" / "1" / "privacy.json").write_text(json.dumps(said))
    (free,) = json.loads(command(runs / "free", "--json").output)
    assert free["tpr_at_fpr_1_percent"] is None


@pytest.mark.parametrize("said", [{"attack_limits": 3}, {"attack_limits": {"mu": "much"}}])
def test_limits_that_no_run_has_written_are_an_error_of_the_user(runs, said):
    (runs / "flat" / "1" / "privacy.json").write_text(json.dumps(said))
    result = command(runs / "flat")
    assert result.exit_code == 2
    assert "privacy.json: attack_limits: expected what a run has written" in result.stderr


def test_programs_get_json(runs):
    result = command(runs / "flat", "--json")
    (flat,) = json.loads(result.output)
    assert flat["metrics"]["val/accuracy"]["mean"] == pytest.approx(0.92)
    assert flat["epsilon"] == {"mean": 3.0, "deviation": 0.0, "least": 3.0, "most": 3.0}


def test_a_folder_without_runs_is_an_error_of_the_user(tmp_path):
    with pytest.raises(UsageError, match=r"plan\.json"):
        find_runs([tmp_path])
    assert command(tmp_path).exit_code == 2
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(UsageError, match="JSON"):
        find_runs([tmp_path])
