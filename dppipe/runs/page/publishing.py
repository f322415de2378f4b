"""What may be published: the validation accuracy, the model, and each file of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.runs.page.markup.elements import Cell, paragraph, section, table
from dppipe.runs.page.markup.wording import counted
from dppipe.runs.statement.other_releases import released_phrases

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts
    from dppipe.runs.statement.statement import Statement

_NOT_CHECKED = (
    "Whoever ran the training declared them public (`holdout: public`); dppipe doesn't check that."
)
_SAME_DATA = (
    "They come from the same data as the training records, unless that data came in ready parts."
)
_ALL_FILES = Markup('<p><a href="#files">Which files may be published</a></p>\n')
_COVERED = "YES"
_KEPT = "NO"
_NO_FILES = "No file of this run is covered by a claim. Don't publish any as private."
_CURVES = "`summary.json`, `curves/`, `events.out.tfevents.*`"
_YES = (
    "YES means: it is covered by the claim, or follows from what is, or from records that were "
    "declared public. Clock times in these files are an exception: the claim doesn't cover how "
    "long anything took."
)


def accuracy(facts: PageFacts) -> Iterator[str]:
    """Answer whether the validation accuracy may be published."""
    plan = facts.plan
    statement = facts.statement
    if hasattr(plan, "search") and facts.claims:
        yield from _score_of_search(facts)
    elif plan.holdout == "private" and plan.private:
        yield (
            "NO. The validation records are private and their metrics carry no noise. They are not "
            "on this page. The run's other files have them under names that start with "
            "`nonprivate/`."
            if not facts.nonprivate
            else "NO. The validation records are private and their metrics carry no noise. This "
            "page shows them: keep it to yourself."
        )
        yield "Nor may a model or its settings be chosen by them."
    elif not facts.claims:
        yield "No promise covers it: the model may reveal any training record."
    elif statement is None or not statement.validation_looks:
        yield "There is none: no validation metric was recorded."
    else:
        yield f"YES, if the validation records really need no protection. {_NOT_CHECKED}"
        if statement.split is not None:
            yield _SAME_DATA


def _score_of_search(facts: PageFacts) -> Iterator[str]:
    if facts.plan.holdout == "private":
        yield (
            "The score `tune/score`: YES. It carries noise, and the epsilon above pays for it. "
            "Any other metric on the private holdout: NO."
        )
        return
    yield (
        "YES, if the validation records, on which the winner was scored, really need no "
        f"protection. {_NOT_CHECKED}"
    )
    yield "It is the best score of several runs, so a new test would find less."


def model(facts: PageFacts) -> Iterator[Markup]:
    """Answer whether the model may be published."""
    statement = facts.statement
    if statement is None or not facts.claims:
        yield paragraph("NO promise covers it. Don't release it as private.")
        return
    if statement.kind is not None:
        yield paragraph("It is not for use: it was made by an audit.")
    elif statement.files.final_weights:
        yield paragraph("YES, under this epsilon: `checkpoints/final.ckpt`.")
    else:
        yield paragraph(
            "There is no final model. What was released so far is covered by this epsilon."
        )
    yield _ALL_FILES


def files(facts: PageFacts) -> Markup:
    """Return each file of the run, with whether the claim covers its publication."""
    statement = facts.statement
    if statement is None or not facts.claims:
        return section("Which files may be published", paragraph(_NO_FILES), ident="files")
    rows = [*_covered(facts, statement), *_kept(facts, statement)]
    return section(
        "Which files may be published",
        table(rows, heading=("file", "may be published", ""), style="numbers-table"),
        paragraph(_YES),
        ident="files",
    )


def _covered(facts: PageFacts, statement: Statement) -> Iterator[tuple[Cell, ...]]:
    """Yield the files that the claim covers."""
    plan = facts.plan
    has = statement.files
    if has.final_weights:
        not_for_use = "" if statement.kind is None else " It was made by an audit: don't use it."
        yield "`checkpoints/final.ckpt`", _COVERED, f"The final model.{not_for_use}"
    if has.checkpoint:
        yield "`checkpoints/last.ckpt`", _COVERED, "The checkpoint to resume from."
    if statement.executed is not None:
        yield (
            "weights after any step",
            _COVERED,
            "Should you have kept some: the claim is about all of them together.",
        )
    for phrase in released_phrases(plan, statement.other_releases):
        yield "released before or beside the model", _COVERED, phrase
    if statement.noisy_counts:
        yield "noisy counts of gradients", _COVERED, "In the curves and in the checkpoint."
    yield "`privacy.md`, `privacy.json`", _COVERED, "The statement of this claim."
    yield "`report.html`", _COVERED, "The page that may be mailed, without private metrics."
    yield (
        "`config.yaml`, `plan.json`, `ledger.jsonl`",
        _COVERED,
        "What was asked for, planned and charged. The claim can be checked with them.",
    )
    if not _curves_are_private(facts, statement):
        yield _CURVES, _COVERED, "How the run ended, and its curves."


def _kept(facts: PageFacts, statement: Statement) -> Iterator[tuple[Cell, ...]]:
    """Yield what has to stay where it is."""
    if _curves_are_private(facts, statement):
        yield (
            _CURVES,
            _KEPT,
            "They may hold numbers that were computed from private records without noise.",
        )
    yield (
        "`nonprivate/`, if there is one",
        _KEPT,
        "Numbers that were computed from private records without noise.",
    )
    yield "`origin.json`", _KEPT, "It names places on the machine and its data files."
    yield "any other file", _KEPT, "This page doesn't judge it."
    yield "the records", _KEPT, "They are not in the run directory."


def _curves_are_private(facts: PageFacts, statement: Statement) -> bool:
    return facts.plan.holdout == "private" or statement.diagnostics or statement.files.attacks


def looks(facts: PageFacts) -> str:
    """Return which model the metrics belong to, and how often the holdout was looked at."""
    statement = facts.statement
    if statement is None or hasattr(facts.plan, "search"):
        return ""
    whose = "These are the last metrics that were recorded."
    if statement.files.final_weights:
        whose = "The metrics are those of the final model, `checkpoints/final.ckpt`."
    # What a crash takes is not in the count.
    least = "at least " if statement.starts > 1 else ""
    validated = counted(statement.validation_looks, "time")
    tested = counted(statement.test_looks, "time")
    return (
        f"{whose} The validation records were scored {least}{validated}, the test records {tested}."
    )
