"""What a claim doesn't cover, what it rests on, what was released, and what it was made with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.page.elements import EMPTY, Cell, bullets, details, paragraph, section, table
from dppipe.runs.statement.assumptions import assumptions
from dppipe.runs.statement.claims import units_of
from dppipe.runs.statement.comparisons import comparison
from dppipe.runs.statement.exclusions import not_covered
from dppipe.runs.statement.releases import released
from dppipe.runs.statement.text import accountant_named, protected_unit, source_named

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts

_LEFT_OUT = (
    "What is under `nonprivate/`, and every metric of a private holdout, is left out of this page."
)

_NOTHING = "Nothing is promised of this run, so nothing is covered."


def coverage(facts: PageFacts) -> Markup:
    """Return what the guarantee leaves out; all of it stands open."""
    statement = facts.statement
    said = EMPTY if facts.nonprivate else paragraph(_LEFT_OUT)
    sentences: Iterable[str] = [_NOTHING]
    if statement is not None and facts.plan.private:
        sentences = not_covered(statement).values()
    return section("What isn't covered", bullets(sentences), said, ident="not-covered")


def grounds(facts: PageFacts) -> Markup:
    """Return what the claim rests on, and what was released."""
    statement = facts.statement
    if statement is None:
        return EMPTY
    out = bullets(released(statement) or ("Nothing under a claim.",))
    rests_on = bullets(assumptions(statement))
    if not rests_on:
        return section("What was released", out, ident="grounds")
    compared = comparison(statement)
    return section(
        "What the claim rests on",
        rests_on,
        paragraph(compared) if compared is not None else EMPTY,
        details("What was released", out),
        ident="grounds",
    )


def provenance(facts: PageFacts) -> Markup:
    """Return the facts of the claim in one table, versions and hashes."""
    return section(
        "The facts, versions and hashes",
        table(_claim(facts)),
        details("Versions", table(_versions(facts))),
        table(_hashes(facts), style="facts hashes"),
        paragraph(
            "`dppipe ledger verify RUN` checks the ledger against these hashes and computes "
            "epsilon anew from its rows. `dppipe report RUN` writes this page again."
        ),
        ident="provenance",
    )


def _claim(facts: PageFacts) -> list[tuple[str, str]]:
    plan = facts.plan
    statement = facts.statement
    rows = [("learner", f"`{plan.learner}`")]
    if plan.data is not None:
        rows.append(("data", source_named(plan.data)))
    if plan.records is not None:
        rows.append((f"training {units_of(plan.unit)}", str(plan.records)))
    if not plan.private:
        return rows
    rows.append(("protected unit", protected_unit(plan)))
    rows.append(("neighbouring relation", f"`{plan.relation}`"))
    if plan.epsilon is not None:
        named = "epsilon" if facts.claims else "epsilon of the plan"
        rows.append((named, f"{shown(plan.epsilon)} (rounded up)"))
    if statement is not None and statement.epsilon_spent is not None:
        rows.append(("spent by what was executed", shown(statement.epsilon_spent)))
    rows.append(("delta", shown_delta(plan.delta or 0.0)))
    if plan.budget_epsilon is not None:
        rows.append(("budget", f"epsilon {plan.budget_epsilon:g}"))
    if plan.scope is not None:
        rows.append(("budget scope", plan.scope))
    if statement is not None:
        rows.append(("accountant", accountant_named(statement)))
    return rows


def _versions(facts: PageFacts) -> list[tuple[str, str]]:
    statement = facts.statement
    return [] if statement is None else list(statement.versions.items())


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
