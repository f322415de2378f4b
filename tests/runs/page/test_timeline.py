"""The timeline says what ledger and run files show of crashes and resumes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from runs.page.pages import PageReader, copied

from dppipe.planning.tuning.tune_plan import TunePlan
from dppipe.runs.origin import remember_origin, resumptions
from dppipe.runs.page.facts import page_facts
from dppipe.runs.page.timeline import timeline
from dppipe.runs.record import going_on


class Rows:
    rows = 3
    torn = b""


def test_each_time_that_a_run_goes_on_is_noted_with_what_came_before(tmp_path):
    run = copied("killed", tmp_path)
    plan = page_facts(run).plan
    assert resumptions(run) == []
    remember_origin(run, data=None, going_on=going_on(run, plan, Rows()))  # type: ignore[arg-type]
    run.summary.write_text(json.dumps({"status": "interrupted"}))
    remember_origin(run, data=None, going_on=going_on(run, plan, Rows()))  # type: ignore[arg-type]
    noted = resumptions(run)
    assert [entry["after"] for entry in noted] == ["killed", "interrupted"]
    assert [entry["rows"] for entry in noted] == [3, 3]
    run.summary.unlink()
    text = PageReader(str(timeline(page_facts(run)))).text
    assert "The run had been killed and was resumed, after row 3 of the ledger." in text
    assert "The run had been interrupted and was resumed" in text


def test_when_a_search_went_on_is_not_noted(tmp_path):
    run = copied("killed", tmp_path)
    assert going_on(run, TunePlan.model_construct(), Rows())["at"] is None  # type: ignore[arg-type]


def test_rows_that_were_cut_off_and_updates_that_were_lost_are_named(tmp_path):
    facts = page_facts(copied("finished", tmp_path))
    assert facts.statement is not None
    assert facts.statement.updates is not None
    statement = replace(facts.statement, updates=facts.statement.updates - 2)
    text = PageReader(str(timeline(replace(facts, statement=statement, torn_rows=(2,))))).text
    assert "A crash cut off row 2 while it was written. It was charged all the same." in text
    assert "6 steps paid for, each by itself. 6 started, and 4 are in the weights." in text
    assert "2 steps were lost by a crash, or came after the last checkpoint." in text


@pytest.mark.parametrize("noted", [None, 7, ["x", 1], [{"at": 3, "rows": "many"}]])
def test_notes_that_cannot_be_read_are_passed_over(noted, tmp_path):
    run = copied("finished", tmp_path)
    origin = run.path / "origin.json"
    origin.write_text(json.dumps(json.loads(origin.read_text()) | {"resumed": noted}))
    assert "The run began" in PageReader(str(timeline(page_facts(run)))).text


def test_steps_that_were_lost_are_named(tmp_path):
    facts = page_facts(copied("finished", tmp_path))
    assert facts.ledger is not None
    rows = facts.ledger.charges
    for missing, said in ((1, "Step 2 never ran"), (2, "Steps 2 and 3 never ran")):
        ledger = replace(facts.ledger, charges=rows[:1] + rows[1 + missing :])
        assert said in PageReader(str(timeline(replace(facts, ledger=ledger)))).text
