"""What readers of a page rely on: one list of exclusions, files that may be published, and bounds in words."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs.page.pages import KINDS, PageReader, copied, page

from dppipe.runs.page.exclusions import exclusions
from dppipe.runs.page.facts import PageFacts, page_facts
from dppipe.runs.page.markup.wording import decimal_delta, one_in
from dppipe.runs.page.publishing import files
from dppipe.runs.page.step_counts import step_counts
from dppipe.runs.page.verdict import verdict
from dppipe.runs.statement.claims import growth
from dppipe.runs.statement.exclusions import not_covered


def text_of(markup: object) -> str:
    return PageReader(str(markup)).text


def crashed_facts(tmp_path, *, kept: int) -> PageFacts:
    """Return the facts of a run that was killed after 3 of the 4 steps of its first epoch."""
    facts = page_facts(copied("shuffle_interrupted", tmp_path))
    assert facts.ledger is not None
    assert facts.statement is not None
    first = facts.ledger.charges[0]
    last = facts.ledger.charges[1]
    again = []
    for step, row in ((5, first), (6, last)):
        again.append(replace(row, facts={**row.facts, "step": step}))
    return replace(
        facts,
        ledger=replace(facts.ledger, charges=(*facts.ledger.charges, *again)),
        statement=replace(facts.statement, status="completed", updates=kept, starts=2),
        starts=2,
        resumed=[{"at": None, "rows": 3, "torn": False, "after": "killed"}],
    )


@given(delta=st.floats(1e-15, 1.0))
def test_a_delta_in_words_is_never_below_the_delta(delta):
    number = int(one_in(delta).removeprefix("1 in ").replace(",", ""))
    assert Fraction(1, number) >= Fraction(repr(delta))
    assert Fraction(decimal_delta(delta)) >= Fraction(repr(delta))


@pytest.mark.parametrize(
    ("delta", "words", "decimal"),
    [(1e-5, "1 in 100,000", "0.00001"), (2.5e-7, "1 in 4,000,000", "0.00000025"), (0.0, "0", "0")],
)
def test_a_delta_in_words_is_that_delta(delta, words, decimal):
    assert one_in(delta) == words
    assert decimal_delta(delta) == decimal


@given(epsilon=st.floats(0.0, 699.0))
def test_the_growth_of_a_probability_is_never_below_what_epsilon_allows(epsilon):
    assert float(growth(epsilon).replace(",", "")) >= math.exp(epsilon) * (1 - 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_short_list_of_exclusions_is_that_of_the_full_list(kind, tmp_path):
    facts = page_facts(copied(kind, tmp_path))
    read = PageReader(page(copied(kind, tmp_path / "again"))).text
    short, _, rest = read.partition("Each of them in full")
    full = rest.partition("Which files may be published file")[0]
    listed = dict(exclusions(facts))
    assert bool(listed) == facts.claims
    for title, sentence in listed.items():
        assert f"{title}." in short
        assert title in full
        assert " ".join(sentence.replace("`", " ").split())[:40] in full
    if facts.claims:
        assert facts.statement is not None
        missing = set(not_covered(facts.statement)) - {"diagnostics"}
        assert len(listed) >= len(missing) + (facts.plan.unit != "user")


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_files_with_metrics_may_be_published_only_if_the_holdout_is_public(holdout, tmp_path):
    facts = page_facts(copied("finished", tmp_path))
    assert facts.statement is not None
    plan = facts.plan.model_copy(update={"holdout": holdout})
    said = text_of(files(replace(facts, plan=plan, statement=replace(facts.statement, plan=plan))))
    answer = "YES" if holdout == "public" else "NO"
    assert f"summary.json , curves/ , events.out.tfevents.* {answer}" in said
    assert "nonprivate/ , if there is one NO" in said
    assert "checkpoints/final.ckpt YES" in said


@pytest.mark.parametrize("kind", ["killed", "not_private"])
def test_no_file_of_a_run_without_a_claim_may_be_published(kind, tmp_path):
    said = text_of(files(page_facts(copied(kind, tmp_path))))
    assert "No file of this run is covered by a claim" in said
    assert "YES" not in said


def test_steps_of_a_crashed_run_add_up(tmp_path):
    counts = step_counts(crashed_facts(tmp_path, kept=4))
    assert counts is not None
    assert (counts.paid, counts.payments, counts.started, counts.kept) == (6, 2, 5, 4)
    assert counts.never_run == [4]
    assert tuple(counts.undone) == (3,)
    said = " ".join(counts.sentences())
    assert "6 steps paid for, in 2 payments: a payment covers 4 steps." in said
    assert "5 started (not step 4), and 4 are in the weights." in said
    assert "Step 3 was undone by the crash." in said
    assert "Epsilon includes all that was paid for." in said


def test_steps_are_not_named_as_undone_where_the_files_cannot_tell(tmp_path):
    facts = crashed_facts(tmp_path, kept=4)
    for unsure in (replace(facts, resumed=[]), replace(facts, starts=3)):
        counts = step_counts(unsure)
        assert counts is not None
        assert counts.undone == ()
        assert "1 step was lost" in " ".join(counts.sentences())


def test_nothing_is_called_lost_where_all_steps_are_in_the_weights(tmp_path):
    counts = step_counts(page_facts(copied("finished", tmp_path)))
    assert counts is not None
    assert "All of them are in the weights." in list(counts.sentences())


@pytest.mark.parametrize("rejected", [False, True])
def test_the_page_of_an_audited_run_shows_its_bound_below_its_claim(rejected, tmp_path):
    run = copied("finished", tmp_path)
    run.audit_plan.parent.mkdir()
    known = {"canaries": "reserved", "number": 1000, "made_up": True}
    run.audit_plan.write_text(json.dumps(known))
    found = {"level": 0.05, "rejected": rejected, "epsilon_lower": 0.4999, "guesses": 94}
    found |= {"ceiling": 3.4, "p_value": 1.0, **known}
    run.audit_result.write_text(json.dumps(found))
    text = PageReader(page(run)).text
    assert "the audit shows at least 0.499" in text
    assert "It is not for use: it was made by an audit." in text
    assert ("The audit CONTRADICTS the claim" in text) == rejected


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("zero_out", "with that record counted as nothing"),
        ("add_remove", "with that record left out"),
        ("replace_one", "with any other record in its place"),
    ],
)
def test_the_top_says_what_the_data_is_compared_with(relation, words, tmp_path):
    facts = page_facts(copied("finished", tmp_path))
    assert facts.statement is not None
    plan = facts.plan.model_copy(update={"relation": relation, "records": None, "split": "hash"})
    statement = replace(facts.statement, plan=plan)
    said = text_of(verdict(replace(facts, plan=plan, statement=statement)))
    assert f"had probability p {words}" in said
    assert relation in said
    assert "not audited by anyone else" in said
    assert "floating point" in said
