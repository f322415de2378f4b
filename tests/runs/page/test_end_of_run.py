"""Every run leaves its page beside its statement, unless the environment says otherwise."""

from __future__ import annotations

import json

from runs.page.pages import PageReader, copied
from typer.testing import CliRunner

from dppipe.cli.app import app


def test_a_run_leaves_its_page_and_its_statement_names_it(run, monkeypatch):
    monkeypatch.delenv("DPPIPE_REPORT")
    done = run()
    read = PageReader((done.path / "report.html").read_text())
    assert "PROVEN: an upper bound" in read.text
    assert f"{done.summary['metrics']['val/accuracy']:.4f}" in read.text
    assert "`report.html`" in (done.path / "privacy.md").read_text()
    assert json.loads((done.path / "privacy.json").read_text())["files"]["report"] is True
    assert done.summary["validation_records"] == 100


def test_a_run_whose_holdout_is_private_tells_nothing_of_it_on_its_page(run, monkeypatch):
    monkeypatch.delenv("DPPIPE_REPORT")
    done = run("data.holdout=private")
    score = done.summary["metrics"]["nonprivate/val/accuracy"]
    text = PageReader((done.path / "report.html").read_text()).text
    assert f"{score:.4f}" not in text
    assert "left out of this page" in text
    assert done.summary["validation_records"] is None


def test_without_pages_none_is_left_and_none_is_named(run):
    done = run()
    assert not (done.path / "report.html").exists()
    assert "report.html" not in (done.path / "privacy.md").read_text()
    assert "report" not in json.loads((done.path / "privacy.json").read_text())["files"]


def test_a_resumed_run_takes_the_pages_of_its_earlier_end_away(tmp_path, monkeypatch):
    run = copied("statistics_interrupted", tmp_path)
    monkeypatch.chdir(tmp_path)
    run.private_report.parent.mkdir()
    for stale in run.pages:
        stale.write_text("epsilon 0.1")
    words = ["resume", str(run.path), "--original-is-gone"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert not any(page.exists() for page in run.pages)
