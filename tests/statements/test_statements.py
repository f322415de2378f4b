"""Every sentence of the statement of every kind of run, read against the run's files.

A statement is cut into sentences, table rows and headings. Each must have a known form, say what
the run's files say, and be due. Then each fact in a statement, and each fact in the files, is
changed in turn: the reading must notice.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import statements.assumption_forms
import statements.attack_forms
import statements.audit_forms
import statements.claim_forms
import statements.exclusion_forms
import statements.number_forms  # noqa: F401
from statements.elements import elements
from statements.facts import Facts
from statements.forms import FORMS, faults
from statements.runs import SPECS, made_once

KINDS = [
    *SPECS,
    *("user_interrupted", "user_resumed", "crashed", "failed", "scope"),
    *("evaluated_private", "evaluated_not_private", "evaluated_public", "filtered"),
    *("audited", "audited_inputs", "attacked"),
    *("earlier_same", "earlier_disjoint", "pretrained", "old_split"),
    *("callback_public", "callback_private", "callback_early", "callback_users"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Facts]]:
    folder = tmp_path_factory.mktemp("statements")
    with pytest.MonkeyPatch.context() as patch:
        made = made_once(folder, patch, lambda maker: maker.make_all())
        assert sorted(made) == sorted(KINDS)
        yield {name: Facts(run) for name, run in made.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_sentence_of_a_statement_says_what_the_files_say(
    runs: dict[str, Facts], kind: str
) -> None:
    facts = runs[kind]
    assert faults(facts, facts.text) == []


def test_every_form_of_a_sentence_is_read_in_some_run(runs: dict[str, Facts]) -> None:
    read = {element for facts in runs.values() for element in elements(facts.text)}
    unread = [form.pattern.pattern for form in FORMS if not any(map(form.pattern.fullmatch, read))]
    assert unread == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_fact_in_a_statement_is_noticed(runs: dict[str, Facts], kind: str) -> None:
    facts = runs[kind]
    for changed in changed_texts(facts.text):
        assert faults(facts, changed), changed


@pytest.mark.parametrize("kind", KINDS)
def test_the_machines_statement_says_what_the_peoples_says(
    runs: dict[str, Facts], kind: str
) -> None:
    facts = runs[kind]
    stated = json.loads((facts.path / "privacy.json").read_text())
    said = [*stated["guarantee"], *stated["assumptions"], *stated["released"]]
    said += stated["not_covered"].values() if facts.private else ()
    said += [stated["comparison"]] if stated["comparison"] else []
    said += stated.get("attacks", [])
    assert stated.get("attack_limits") == (facts.plan["attack_limits"] if facts.protects else None)
    assert bool(stated.get("attacks")) == facts.protects
    text = facts.text.replace("**", "")
    assert [sentence for sentence in said if sentence not in text] == []
    assert (stated["protects"], stated["status"]) == (facts.protects, facts.status)
    looks = facts.summary["validations"] + facts.evaluations
    assert stated["evaluation_looks"] == looks


def changed_texts(text: str) -> Iterator[str]:
    """Yield a statement with each element left out, and with each fact in it changed, in turn."""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if not line or set(line) <= set("|- "):
            continue
        others = [*lines[:place], *lines[place + 1 :]]
        yield "\n".join(others)
        for other in changed_lines(line):
            yield "\n".join([*lines[:place], other, *lines[place + 1 :]])


def changed_lines(line: str) -> Iterator[str]:
    """Yield a line with each sentence left out, and each matched fact changed."""
    for element in elements(line):
        if len(elements(line)) > 1:
            yield line.replace(element, "")
        for form in FORMS:
            match = form.pattern.fullmatch(element)
            for group in range(1, (match.re.groups if match else 0) + 1):
                if match and match.group(group):
                    start, end = match.span(group)
                    altered = element[:start] + other_fact(match.group(group)) + element[end:]
                    yield line.replace(element, altered)


def other_fact(fact: str) -> str:
    """Return another fact of the same kind: another number, or another word."""
    number = re.search(r"\d(?=\D*$)", fact)
    if number is None:
        return "twice" if fact == "once" else f"other_{fact.lstrip()}"
    digit = "3" if number.group() != "3" else "4"
    return fact[: number.start()] + digit + fact[number.end() :]


def set_value(file: str, *keys: str | int, to: Any) -> Callable[[Facts], None]:
    """Return a change of one value in a file of a run."""

    def change(facts: Facts) -> None:
        block = getattr(facts, file)
        for key in keys[:-1]:
            block = block[key]
        assert block[keys[-1]] != to
        block[keys[-1]] = to

    return change


def take_file(name: str) -> Callable[[Facts], None]:
    """Return a change that takes a file away."""

    def change(facts: Facts) -> None:
        assert name in facts.files
        facts.files.discard(name)

    return change


def take_files(folder: str) -> Callable[[Facts], None]:
    """Return a change that takes all files of a folder away."""

    def change(facts: Facts) -> None:
        gone = {file for file in facts.files if file.startswith(folder)}
        assert gone
        facts.files -= gone

    return change


def change_row(number: int, name: str, to: Any) -> Callable[[Facts], None]:
    """Return a change of one value in a row of the ledger."""

    def change(facts: Facts) -> None:
        assert facts.rows[number][name] != to
        facts.rows[number][name] = to

    return change


CHANGES: list[tuple[str, Callable[[Facts], None]]] = [
    ("public", set_value("config", "data", "holdout", to="private")),
    ("public", set_value("config", "name", to="other")),
    ("public", set_value("config", "reproducible", to=True)),
    ("public", set_value("config", "accountant", "kind", to="gdp")),
    ("public", set_value("config", "budget", "epsilon", to=7.0)),
    ("public", set_value("config", "budget", "delta", to=1e-6)),
    ("public", set_value("config", "data", "size", to=500)),
    ("public", set_value("config", "diagnostics", to="nonprivate")),
    ("public", set_value("config", "clipping", "kind", to="layerwise")),
    ("public", set_value("config", "clipping", "max_grad_norm", to=2.0)),
    ("public", set_value("config", "noise", "noise_multiplier", to=3.0)),
    ("public", set_value("config", "noise", "secure", to=True)),
    ("public", set_value("config", "train", "steps", to=9)),
    ("public", set_value("config", "data", "split", "train", to=0.7)),
    ("no_holdout", set_value("summary", "validations", to=1)),
    ("statistics", set_value("config", "data", "on_bad_record", to="refuse")),
    ("statistics", set_value("config", "data", "normalize", "noise_multiplier", to=9.0)),
    ("statistics", take_file("statistics.json")),
    ("public", set_value("summary", "validations", to=3)),
    ("public", set_value("summary", "status", to="interrupted")),
    ("public", set_value("summary", "steps", to=7)),
    ("public", set_value("summary", "epsilon", to=0.4)),
    ("public", set_value("summary", "begun", to="2020-01-01T00:00:00Z")),
    ("public", set_value("summary", "ended", to="2020-01-01T00:00:00Z")),
    ("public", set_value("summary", "independence", to="by construction")),
    ("public", set_value("summary", "ledger_head", to="0" * 64)),
    ("public", set_value("summary", "versions", "torch", to="1.0")),
    ("public", set_value("plan", "split", to="hash")),
    ("public", set_value("plan", "steps", to=9)),
    ("public", set_value("plan", "whole_curve", "epsilons", to=[0.1, 0.2, 0.3, 0.4])),
    ("public", set_value("plan", "attack_limits", "advantage", to=0.1)),
    ("public", set_value("plan", "attack_limits", "mu", to=0.1)),
    *(
        (
            "public",
            set_value("plan", "attack_limits", "membership", place, "true_positive_rate", to=0.2),
        )
        for place in range(3)
    ),
    *(
        (
            "public",
            set_value("plan", "attack_limits", "reconstruction", place, "probability", to=0.2),
        )
        for place in range(2)
    ),
    ("filtered", set_value("plan", "attack_limits", "advantage", to=0.1)),
    ("public", take_file("checkpoints/final.ckpt")),
    ("public", take_file("checkpoints/last.ckpt")),
    ("public", lambda facts: facts.rows.pop()),
    ("public", change_row(0, "relation", "add_remove")),
    ("public", change_row(0, "unit", "user")),
    ("public", change_row(3, "noise_multiplier", 1.0)),
    ("public", change_row(3, "sample_rate", 0.2)),
    ("public", change_row(3, "max_grad_norm", 2.0)),
    ("public", change_row(3, "sampler", "shuffle")),
    ("public", change_row(3, "count", 50)),
    ("public", change_row(-1, "mechanism", "laplace")),
    ("user_resumed", set_value("config", "data", "user", to="age")),
    ("user_resumed", set_value("config", "data", "path", to="other.csv")),
    ("user_resumed", set_value("config", "data", "users", to=200)),
    ("user_resumed", set_value("config", "sampler", "max_records_per_user", to=64)),
    ("user_resumed", set_value("known", "starts", to=3)),
    ("user_resumed", set_value("origin", "begun", to="2020-01-01T00:00:00Z")),
    ("evaluated_private", set_value("summary", "evaluations", to=2)),
    ("evaluated_private", set_value("config", "data", "holdout", to="public")),
    ("attacked", take_files("nonprivate/attack/")),
    ("failed", set_value("summary", "status", to="completed")),
    ("callback_early", set_value("known", "stopped_early", to=False)),
    ("add_remove", set_value("plan", "split", to="position")),
    ("scope", set_value("config", "budget", "scope", to="other")),
    ("scope", set_value("known", "scope", "epsilon", to=30.0)),
    ("callback_public", set_value("known", "dataset", to="torch.Other")),
    ("callback_public", set_value("plan", "split", to="hash")),
    ("callback_users", set_value("known", "user", to="patient")),
    ("earlier_same", set_value("config", "model", "pretrained", to=None)),
    ("estimated_norms", set_value("config", "clipping", "delta", to=1e-7)),
]


@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_a_changed_fact_in_the_files_is_noticed(
    runs: dict[str, Facts], kind: str, change: Callable[[Facts], None]
) -> None:
    facts = Facts(copy.deepcopy(runs[kind].made))
    change(facts)
    assert faults(facts, facts.text)


def test_a_killed_run_has_no_statement_and_loses_updates(runs: dict[str, Facts]) -> None:
    facts = runs["crashed"]
    assert len(facts.steps) > facts.summary["steps"]


def test_the_old_split_under_add_remove_is_reported_by_verify(runs: dict[str, Facts]) -> None:
    from dppipe.runs.verify import verify_ledger

    assert any(
        "got one by position" in fault for fault in verify_ledger(runs["old_split"].path).faults
    )
    for kind in ("public", "add_remove", "callback_public"):
        assert verify_ledger(runs[kind].path).intact


def test_a_statement_written_anew_is_the_same(runs: dict[str, Facts]) -> None:
    from dppipe.runs.directory import RunDirectory
    from dppipe.runs.statement.writing import write_statement

    for name in ("public", "user_resumed", "callback_public"):
        path = Path(runs[name].path)
        write_statement(RunDirectory(path))
        assert (path / "privacy.md").read_text() == runs[name].text
