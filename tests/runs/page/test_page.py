"""A page is made from the run directory alone, loads nothing, and holds nothing without a guarantee."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs.page.pages import EARLIER, KINDS, PageReader, change_summary, copied, page
from scipy.stats import binomtest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import UsageError
from dppipe.planning.data_source import DataSource
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan
from dppipe.runs.page.baseline import read_baseline
from dppipe.runs.page.facts import page_facts
from dppipe.runs.page.metrics import metrics_of, wilson_interval
from dppipe.runs.page.page import page_of
from dppipe.runs.verify import verify_ledger

PLANTED = 0.123454321
PLAN = read_plan(RunDirectory.open(EARLIER / "users"))
HOSTILE = """</title><script>alert(1)</script><img src=x onerror="a('b')">&amp;`${7*7}$x_1$"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_any_run_loads_nothing_and_leaves_the_ledger_as_it_was(kind, tmp_path):
    run = copied(kind, tmp_path)
    before = verify_ledger(run.path) if read_plan(run).private else None
    read = PageReader(page(run))
    assert {"script", "iframe", "img", "object", "embed", "form"}.isdisjoint(read.tags)
    assert all(place.startswith(("#", "data:,")) for place in read.references)
    assert read.handlers == []
    assert read_plan(run).name in read.text
    if before is not None:
        assert verify_ledger(run.path) == before


def test_a_page_is_a_function_of_the_files_wherever_they_stand(tmp_path):
    first = page(copied("users", tmp_path / "here"))
    run = copied("users", tmp_path / "there")
    assert page(run) == page(run) == first
    assert str(tmp_path) not in first


@pytest.mark.slow
def test_a_page_is_made_without_torch(tmp_path):
    run = copied("finished", tmp_path)
    code = (
        "import sys\nfrom dppipe.cli.app import app\n"
        f"app(['report', {str(run.path)!r}], standalone_mode=False)\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert run.report.exists()


def test_no_number_without_a_guarantee_is_on_the_page(tmp_path):
    run = copied("users", tmp_path)
    plan = read_plan(run)
    assert plan.holdout == "private"
    planted = {"nonprivate/val/accuracy": PLANTED, "val/accuracy": PLANTED, "loss": PLANTED}
    change_summary(run, metrics=planted, test={"nonprivate/test/accuracy": PLANTED})
    found = run.attacks / "membership-lira"
    found.mkdir(parents=True)
    (found / "attack.md").write_text(f"found {PLANTED} of <b>them</b>")
    shown = PageReader(page(run)).text
    assert "0.123" not in shown
    assert "Metrics of the private holdout are left out" in shown
    private = page(run, nonprivate=True)
    assert "0.1235" in private
    assert f"found {PLANTED} of &lt;b&gt;them" in private
    assert "DON'T RELEASE THIS PAGE" in PageReader(private).text
    assert "DON'T RELEASE" not in shown


@given(
    name=st.text(min_size=1) | st.sampled_from(["val/", "test/", "nonprivate/val/", "tune/score"]),
    holdout=st.sampled_from(["public", "private"]),
)
def test_only_metrics_of_a_public_holdout_are_kept(name, holdout):
    plan = PLAN.model_copy(update={"holdout": holdout})
    kept, left_out = metrics_of({"metrics": {name: 0.5}}, plan, nonprivate=False, place="here")
    public = holdout == "public" and name.startswith(("val/", "test/"))
    assert [metric.name for metric in kept] == ([name] if public or name == "tune/score" else [])
    assert left_out == 1 - len(kept)


def test_what_a_spec_says_is_text_and_never_markup(tmp_path):
    facts = page_facts(copied("finished", tmp_path))
    source = DataSource(kind=HOSTILE, files=(HOSTILE,), user=HOSTILE)
    plan = facts.plan.model_copy(
        update={"name": HOSTILE, "data": source, "scope": HOSTILE, "plugins": {HOSTILE: HOSTILE}}
    )
    assert facts.statement is not None
    statement = replace(
        facts.statement, plan=plan, versions={**facts.statement.versions, "x": HOSTILE}
    )
    read = PageReader(page_of(replace(facts, plan=plan, statement=statement)))
    assert {"script", "img"}.isdisjoint(read.tags)
    assert read.handlers == []
    assert "<script>alert(1)</script>" in read.text


@pytest.mark.parametrize("kind", ["killed", "not_private"])
def test_a_run_without_a_claim_has_none_on_its_page(kind, tmp_path):
    text = PageReader(page(copied(kind, tmp_path))).text
    assert "NO CLAIM YET" in text or "NOT PRIVATE" in text
    for words in ("PROVEN", "epsilon, at most", "finds at most", "YES"):
        assert words not in text


def test_a_failed_run_makes_no_claim_on_its_page(tmp_path):
    run = copied("finished", tmp_path)
    change_summary(run, status="failed", certified=False)
    text = PageReader(page(run)).text
    assert "NO CLAIM: the run failed" in text
    assert "PROVEN" not in text
    assert "finds at most" not in text


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("summary.json", b'{"status": '),
        ("summary.json", b"[]"),
        ("plan.json", b"{}"),
        ("ledger.jsonl", b'{"row":1}\n'),
        ("ledger.jsonl", None),
    ],
)
def test_a_damaged_directory_is_an_error_with_its_place_and_nothing_is_written(
    file, content, tmp_path
):
    run = copied("finished", tmp_path)
    run.report.write_text("as before")
    place = run.path / file
    place.unlink()
    if content is not None:
        place.write_bytes(content)
    before = sorted(run.path.iterdir())
    done = CliRunner().invoke(app, ["report", str(run.path)])
    assert done.exit_code == 2
    assert file in done.output
    assert run.report.read_text() == "as before"
    assert sorted(run.path.iterdir()) == before


@pytest.mark.parametrize("value", ["high", True, [1.0], {"a": 1}])
def test_metrics_that_no_run_wrote_are_an_error_with_their_place(value, tmp_path):
    run = copied("finished", tmp_path)
    change_summary(run, metrics={"val/accuracy": value}, test={"test/accuracy": 0.5})
    plan = read_plan(run).model_copy(update={"holdout": "public"})
    summary = json.loads(run.summary.read_text())
    with pytest.raises(UsageError, match="val/accuracy"):
        metrics_of(summary, plan, nonprivate=False, place="summary.json")


def test_a_baseline_without_a_claim_is_shown_under_nonprivate_alone(tmp_path):
    run = copied("finished", tmp_path)
    other = copied("not_private", tmp_path)
    change_summary(other, metrics={"val/accuracy": PLANTED, "nonprivate/val/accuracy": PLANTED})
    public = page(run)
    done = CliRunner().invoke(app, ["report", str(run.path), "--baseline", str(other.path)])
    assert done.exit_code == 0
    assert "under nonprivate/ alone" in " ".join(done.output.split())
    assert run.report.read_text() == public
    assert "0.1235" in run.private_report.read_text()
    assert not read_baseline(other, nonprivate=False).protects


@given(right=st.integers(0, 400), wrong=st.integers(0, 400))
def test_an_interval_is_that_of_wilson(right, wrong):
    records = right + wrong
    if not records:
        assert wilson_interval(0.0, 0) is None
        return
    expected = binomtest(right, records).proportion_ci(method="wilson")
    assert wilson_interval(right / records, records) == pytest.approx(
        (expected.low, expected.high), abs=1e-9
    )
