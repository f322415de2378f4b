"""`dppipe compare`: runs of one setting are averaged, others never are, and nothing is claimed or
shown that a run doesn't say itself."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import UsageError
from dppipe.privacy.accountants.base import Certificate
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.limits_of_cost import limits_of_cost
from dppipe.report.comparison.options import differing_options, short_names
from dppipe.report.comparison.page import comparison_page
from dppipe.report.comparison.ranking import compare_runs, falls
from dppipe.report.comparison.reading import find_runs

SPEC = {
    "version": 1,
    "name": "flat",
    "seed": 7,
    "data": {"kind": "digits", "holdout": "public"},
    "optimizer": {"kind": "sgd", "lr": 0.1},
    "clipping": {"kind": "flat", "max_grad_norm": 1.0},
    "budget": {"epsilon": 3.0, "delta": 1e-5},
}
TERMS = {"private": True, "delta": 1e-5, "relation": "zero_out", "unit": "example"}


@pytest.fixture
def write(tmp_path):
    """Write run directories: a plan, a spec and, where a status is given, a summary."""

    def make(run, *, status="completed", spec=None, plan=None, epsilon=3.0, **summary):
        path = tmp_path / "runs" / run
        path.mkdir(parents=True)
        given_spec = SPEC | (spec or {})
        (path / "plan.json").write_text(
            json.dumps({"name": given_spec["name"]} | TERMS | (plan or {}))
        )
        (path / "config.yaml").write_text(yaml.safe_dump(given_spec))
        if status:
            facts = {"status": status, "epsilon": epsilon, "steps": 5, "certified": True}
            (path / "summary.json").write_text(json.dumps(facts | summary))
        return path

    make.root = tmp_path / "runs"
    return make


def lr(value):
    return {"optimizer": {"kind": "sgd", "lr": value}}


def accuracy(value):
    return {"val/accuracy": value}


def compare(write, **options):
    return compare_runs(find_runs([write.root]), **options)


def settings(comparison):
    return [one for ranking in comparison.rankings for one in ranking.settings]


def command(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_seeds_are_averaged_and_other_settings_of_the_same_name_are_not(write):
    write("1", spec={"seed": 1}, metrics=accuracy(0.90), seconds=2.0)
    write("2", spec={"seed": 2}, metrics=accuracy(0.94), seconds=4.0, test={"test/accuracy": 0.8})
    write("3", spec=lr(0.3), metrics=accuracy(0.5))
    compared = compare(write)
    assert compared.options == ("optimizer.lr",)
    both, other = settings(compared)
    spread = both.metrics["val/accuracy"]
    assert (spread.mean, spread.count) == (pytest.approx(0.92), 2)
    assert spread.deviation == pytest.approx(0.04 / 2**0.5)
    assert both.metrics["test/accuracy"].deviation is None
    assert both.seconds.mean == 3.0
    assert (both.options["optimizer.lr"], other.options["optimizer.lr"]) == (0.1, 0.3)


@given(st.permutations([("a", 1), ("a", 2), ("b", 1), ("c", 1)]))
def test_how_runs_are_grouped_does_not_depend_on_their_order(order):
    from dppipe.report.comparison.reading import ComparedRun

    runs = [
        ComparedRun(
            path=f"{option}{seed}",
            name="x",
            status="completed",
            claim="epsilon",
            epsilon=1.0,
            delta=1e-5,
            relation="zero_out",
            unit="example",
            tpr_at_fpr_1_percent=None,
            seed=seed,
            seconds=None,
            metrics={"val/loss": ord(option) / 100},
            options={"o": option},
        )
        for option, seed in order
    ]
    found = [(one.options["o"], len(one.runs)) for one in settings(compare_runs(runs))]
    assert found == [("a", 2), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("status", ["failed", "interrupted", ""])
def test_a_run_that_has_not_ended_as_planned_claims_nothing_and_is_in_no_mean(write, status):
    write("1", metrics=accuracy(0.9))
    write("2", status=status, metrics=accuracy(0.1), epsilon=7.0)
    write("3", status=status, spec=lr(0.3), metrics=accuracy(0.99))
    mixed, alone = settings(compare(write))
    assert mixed.metrics["val/accuracy"].mean == 0.9
    assert mixed.epsilon.most == 3.0
    assert (alone.claim, alone.epsilon, alone.metrics) == ("none", None, {})
    shown = command(write.root).output
    assert "NO CLAIM" in shown
    assert f"1 {status or 'unfinished'}" in shown


def test_seeded_noise_and_withdrawn_claims_show_no_epsilon(write):
    write("1", plan={"reproducible": True})
    write("2", spec=lr(0.2), certified=False)
    path = write("3", spec=lr(0.3))
    (path / "privacy.json").write_text(json.dumps({"protects": False}))
    found = sorted(one.claim for one in settings(compare(write)))
    assert found == ["none", "none", "seeded"]
    assert "NO PROTECTION" in command(write.root).output


@pytest.mark.parametrize(
    "other", [{"relation": "add_remove"}, {"unit": "user"}, {"delta": 1e-6}], ids=str
)
def test_epsilons_of_different_kinds_are_ranked_apart_and_that_is_said(write, other):
    write("1", metrics=accuracy(0.8))
    write("2", plan=other, metrics=accuracy(0.9))
    write("free", plan={"private": False}, spec={"budget": "none"}, metrics=accuracy(0.95))
    compared = compare(write)
    assert [len(ranking.settings) for ranking in compared.rankings] == [1, 1, 1]
    assert compared.rankings[-1].title == "NOT PRIVATE"
    assert any("don't compare" in note for note in compared.notes)


def test_metrics_of_a_private_holdout_are_shown_only_on_request(write):
    write("1", metrics={"nonprivate/val/accuracy": 0.7123}, test={"nonprivate/test/loss": 0.4567})
    for words in ([], ["--json"], ["--html", write.root / "page.html"]):
        result = command(write.root, *words)
        assert result.exit_code == 0
        assert "0.7123" not in result.output
        assert "0.4567" not in result.output
    assert "0.7123" not in (write.root / "page.html").read_text()
    assert "--nonprivate" in command(write.root).output
    assert "0.7123" in command(write.root, "--nonprivate").output
    hidden = command(write.root, "--metric", "nonprivate/val/accuracy")
    assert hidden.exit_code == 2
    assert "0.7123" not in hidden.stderr


def test_what_lies_inside_a_run_is_no_run_and_a_search_is_its_own_setting(write):
    path = write("1", metrics=accuracy(0.9))
    for inside in ("tune/winner", "tune/sealed/3", "audit"):
        (path / inside).mkdir(parents=True)
        (path / inside / "plan.json").write_text('{"name": "inner"}')
    searched = SPEC | {"tune": {"candidates": {"optimizer.lr": [0.1, 0.2]}}}
    (path / "tune" / "config.yaml").write_text(yaml.safe_dump(searched))
    write("2", metrics=accuracy(0.8))
    assert len(find_runs([write.root])) == 2
    assert compare(write).options == ("tune.candidates.optimizer.lr",)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.1, 0.5, 1.0, 3.0, 8.0]), st.floats(0, 1)),
        min_size=1,
        max_size=8,
        unique_by=tuple,
    )
)
def test_no_setting_beats_one_of_the_frontier_and_each_other_is_beaten(points):
    from dppipe.report.comparison.reading import ComparedRun

    runs = []
    for number, (epsilon, score) in enumerate(points):
        facts = {"name": "x", "status": "completed", "claim": "epsilon", "seed": 1}
        facts |= {"delta": 1e-5, "relation": "zero_out", "unit": "example", "seconds": 1.0}
        facts |= {"metrics": {"val/accuracy": score}, "options": {"number": number}}
        runs.append(
            ComparedRun(path=str(number), epsilon=epsilon, tpr_at_fpr_1_percent=None, **facts)
        )
    (ranking,) = compare_runs(runs).rankings
    frontier = {one.options["number"] for one in ranking.frontier} if len(points) > 1 else {0}
    for number, (epsilon, score) in enumerate(points):
        beaten = any(
            other != number
            and points[other][0] <= epsilon
            and points[other][1] >= score
            and points[other] != (epsilon, score)
            for other in range(len(points))
        )
        assert beaten == (number not in frontier)


def test_epsilons_that_are_shown_alike_are_one_epsilon_on_the_frontier(write):
    write("1", metrics=accuracy(0.9), epsilon=2.9999999)
    write("2", spec=lr(0.3), metrics=accuracy(0.8), epsilon=2.9999998)
    (ranking,) = compare(write).rankings
    assert len(ranking.frontier) == 1


@pytest.mark.parametrize(
    ("metric", "less"),
    [("val/loss", True), ("test/mse", True), ("val/accuracy", False), ("val/glossary", False)],
)
def test_which_way_a_metric_is_better_follows_from_its_name(metric, less):
    assert falls(metric) == less


def test_options_that_only_one_kind_has_are_told_by_the_kind():
    flat = {"clipping.kind": "flat", "clipping.max_grad_norm": 1.0}
    adaptive = {"clipping.kind": "adaptive", "clipping.quantile": 0.5}
    assert differing_options([flat, adaptive]) == ["clipping.kind"]
    other = adaptive | {"clipping.quantile": 0.7}
    assert differing_options([flat, adaptive, other]) == ["clipping.kind", "clipping.quantile"]
    assert differing_options([flat, {"clipping.kind": "flat"}]) == ["clipping.max_grad_norm"]


def test_short_names_stay_apart():
    names = ["a.lr", "b.lr", "c.kind", "budget.epsilon", "x.y.z"]
    assert short_names(names) == {
        "a.lr": "a.lr",
        "b.lr": "b.lr",
        "c.kind": "c.kind",
        "budget.epsilon": "budget.epsilon",
        "x.y.z": "z",
    }


def test_the_terminal_needs_no_more_than_80_columns(write):
    names = [f"{split}/{name}" for split in ("val", "test") for name in ("accuracy", "auroc", "f1")]
    many = dict.fromkeys([*names, "val/loss", "test/loss"], 0.5)
    write("1", metrics=many)
    write("2", spec=lr(0.3), metrics=many)
    lines = command(write.root).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("No room for" in line for line in lines)
    write("3", spec={"name": "n" * 60} | lr(0.4), metrics=many)
    lines = command(write.root).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("  val/accuracy ") for line in lines) == 3


def test_the_page_loads_nothing_and_shows_text_as_text(write):
    pytest.importorskip("matplotlib")
    name = "<script>alert(1)</script>"
    write("1", spec={"name": name}, metrics=accuracy(0.8))
    write("2", spec={"name": name} | lr(0.3), metrics=accuracy(0.9), epsilon=1.0)
    page = comparison_page(compare(write), title="Runs & more")
    assert name not in page
    for loading in ("src=", "@import", "url(http", "<link", "<script", 'href="http'):
        assert loading not in page
    svg = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    ElementTree.fromstring(svg)
    assert "currentColor" in svg


def limits(rate):
    """Return what `privacy.json` says of attackers: `rate` at 1 % false alarms."""
    curve = Certificate("gdp", "zero_out", GaussianCurve(mu=1.0))
    known = limits_of_cost(curve, delta=1e-5).model_dump(mode="json")
    known["membership"][1]["true_positive_rate"] = rate
    return {"attack_limits": known}


def test_what_any_attacker_reaches_is_shown_where_every_run_has_such_a_limit(write):
    first = write("1", spec={"seed": 1})
    second = write("2", spec={"seed": 2})
    (first / "privacy.json").write_text(json.dumps(limits(0.0517)))
    assert "TPR" not in command(write.root).output
    (second / "privacy.json").write_text(json.dumps(limits(0.06001)))
    assert "5.17 % to 6.01 %" in command(write.root).output
    (ranking,) = json.loads(command(write.root, "--json").output)["rankings"]
    spread = ranking["settings"][0]["tpr_at_fpr_1_percent"]
    assert (spread["least"], spread["most"]) == (0.0517, 0.06001)


@pytest.mark.parametrize("said", [{"attack_limits": 3}, {"attack_limits": {"mu": "much"}}])
def test_limits_that_no_run_has_written_are_an_error_of_the_user(write, said):
    (write("1") / "privacy.json").write_text(json.dumps(said))
    result = command(write.root)
    assert result.exit_code == 2
    assert "privacy.json: attack_limits: expected what a run has written" in result.stderr


def test_a_run_that_is_named_twice_counts_once(write):
    path = write("1")
    assert len(find_runs([write.root, path])) == 1


def test_files_that_no_run_has_written_are_errors_of_the_user(write, tmp_path):
    with pytest.raises(UsageError, match=r"plan\.json"):
        find_runs([tmp_path])
    path = write("1", metrics={"val/accuracy": "much"})
    assert command(path).exit_code == 2
    (path / "plan.json").write_text("{")
    with pytest.raises(UsageError, match="JSON"):
        find_runs([path])


def test_runs_made_in_python_are_told_apart_by_name_and_plan(write):
    for number, plan in enumerate([{}, {}, {"steps": 9}]):
        (write(str(number), plan=plan) / "config.yaml").unlink()
    assert [len(one.runs) for one in settings(compare(write))] == [2, 1]
