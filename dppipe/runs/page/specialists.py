"""The facts of a claim in one table, and what only specialists ask for, folded away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.page.markup.elements import (
    EMPTY,
    Cell,
    bullets,
    details,
    joined,
    paragraph,
    section,
    subheading,
    table,
)
from dppipe.runs.page.markup.wording import one_in, whose_records
from dppipe.runs.statement.assumptions import assumptions
from dppipe.runs.statement.attacks import gaussian_sentences, stated_limits
from dppipe.runs.statement.claims import units_of
from dppipe.runs.statement.comparisons import comparison
from dppipe.runs.statement.text import accountant_named, source_named

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.runs.page.facts import PageFacts
    from dppipe.runs.statement.statement import Statement

_VERIFY = (
    "`dppipe ledger verify RUN` checks the ledger against the hashes below and computes epsilon "
    "anew from its rows. `dppipe report RUN` writes this page again."
)
_WORDS = (
    "Where a record is the protected unit, sentences here may call it an example. Privacy is "
    "central: whoever runs the training sees the records."
)


def facts_section(facts: PageFacts) -> Markup:
    """Return the facts of the claim, and the appendix for specialists."""
    return section(
        "The facts",
        table(_claim(facts)),
        paragraph(_VERIFY),
        details("For specialists", _appendix(facts)),
        ident="facts",
    )


def _appendix(facts: PageFacts) -> Markup:
    """Return the formal claim, what it rests on, versions and hashes."""
    statement = facts.statement
    said = EMPTY
    if statement is not None and facts.claims:
        said = joined([subheading("The claim in formal words"), _formal(facts, statement)])
    grounds = bullets(() if statement is None else assumptions(statement))
    versions = [] if statement is None else list(statement.versions.items())
    return joined(
        [
            said,
            joined([subheading("What the claim rests on"), grounds]) if grounds else EMPTY,
            joined([subheading("Versions"), table(versions)]) if versions else EMPTY,
            subheading("Hashes"),
            table(_hashes(facts), style="facts hashes"),
        ]
    )


def _formal(facts: PageFacts, statement: Statement) -> Markup:
    sentences = [" ".join(statement.guarantee())]
    limits = stated_limits(statement)
    if limits is not None:
        sentences += gaussian_sentences(facts.plan, limits)
    compared = comparison(statement)
    if compared is not None:
        sentences.append(compared)
    sentences += [f"Epsilon was computed by the accountant {accountant_named(statement)}.", _WORDS]
    return joined(map(paragraph, sentences))


def _claim(facts: PageFacts) -> Iterator[tuple[str, str]]:
    plan = facts.plan
    statement = facts.statement
    yield "learner", f"`{plan.learner}`"
    if plan.data is not None:
        yield "data kind", source_named(plan.data)
    if plan.records is not None:
        yield f"training {units_of(plan.unit)}", str(plan.records)
    if not plan.private:
        return
    yield "protected", _protected(plan)
    yield "neighbouring relation", f"`{plan.relation}`"
    if plan.epsilon is not None:
        named = "epsilon" if facts.claims else "epsilon of the plan"
        yield named, f"{shown(plan.epsilon)} (rounded up)"
    if statement is not None and statement.epsilon_spent is not None:
        yield "spent by what was executed", shown(statement.epsilon_spent)
    yield "delta", f"{shown_delta(plan.delta or 0.0)} ({one_in(plan.delta or 0.0)})"
    if plan.budget_epsilon is not None:
        yield "budget", f"epsilon {plan.budget_epsilon:g}"
    if plan.scope is not None:
        yield "budget scope", plan.scope


def _protected(plan: Plan) -> str:
    """Return what one protected unit is."""
    return f"one user: {whose_records(plan)}" if plan.unit == "user" else "one training record"


def _hashes(facts: PageFacts) -> list[tuple[Cell, Cell]]:
    statement = facts.statement
    found: list[tuple[str, str | None]] = [("plan", facts.plan_hash)]
    if statement is not None:
        found += [("config", statement.config_hash), ("ledger head", statement.ledger_head)]
    found += [(f"plugin {name}", digest) for name, digest in facts.plan.plugins.items()]
    rows: list[tuple[Cell, Cell]] = []
    for name, digest in found:
        if digest:
            rows.append((name, Markup("<code>{}</code>").format(digest)))
    return rows
