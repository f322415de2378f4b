"""What a claim doesn't cover: each exclusion with a title, in one list that all sections share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.runs.page.markup.elements import EMPTY, paragraph, section, table
from dppipe.runs.statement.exclusions import not_covered

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts
    from dppipe.runs.statement.statement import Statement

_TITLES = {
    "holdout": "The holdout",
    "test_split": "Scores of the test records",
    "diagnostics": "Training diagnostics",
    "attacks": "What attacks on the model found",
    "earlier_runs_and_tuning": "Other trainings on the same records",
    "pretrained": "The records behind the starting weights",
    "candidates": "The records behind the candidates",
    "trust": "Whoever runs the training",
    "timing": "Clock and memory",
    "floating_point": "Rounding by the computer",
    "faults": "Faults of the machine, and code of your own",
    "public_data": "Data that was declared public",
    "bad_records": "That every record was usable",
    "preprocessing": "What was learned before training",
}
_GROUPS = (
    "Facts about a group",
    "What is true of many records can be learned, and may tell something about people who are not "
    "in the data.",
)
_SEVERAL = (
    "A person with several records",
    "The claim is for one record. k records together have up to k times this epsilon, and a larger "
    "delta.",
)
_HOLDOUT = (
    "The holdout is what was kept out of training: the validation records and the test records. "
    "Nothing is promised to the people behind them."
)
_TRUST = "They see the records."
_LEFT_OUT = (
    "What is under `nonprivate/`, and every metric of a private holdout, is left out of this page."
)
_NOTHING = "Nothing is promised of this run, so nothing is covered."


def exclusions(facts: PageFacts) -> Iterator[tuple[str, str]]:
    """Yield the title and the sentence of each thing that the claim leaves out."""
    statement = facts.statement
    if statement is None or not facts.claims:
        return
    yield _GROUPS
    if facts.plan.unit != "user":
        yield _SEVERAL
    said = not_covered(statement)
    for name in [*_TITLES, *(name for name in said if name not in _TITLES)]:
        if name in said and _matters(name, statement):
            yield _TITLES.get(name, name.replace("_", " ")), _sentence(name, said[name])


def _matters(name: str, statement: Statement) -> bool:
    """Return whether there is something to leave out."""
    return name != "diagnostics" or statement.diagnostics


def _sentence(name: str, said: str) -> str:
    if name == "trust":
        return _TRUST
    return f"{_HOLDOUT} {said}" if name == "holdout" else said


def not_covered_section(facts: PageFacts) -> Markup:
    """Return what the guarantee leaves out; all of it stands open."""
    left_out = EMPTY if facts.nonprivate else paragraph(_LEFT_OUT)
    listed = table(exclusions(facts)) or paragraph(_NOTHING)
    return section("What isn't covered", listed, left_out, ident="not-covered")
