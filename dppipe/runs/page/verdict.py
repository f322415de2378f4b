"""The top of a page: what is claimed, in large type and in two sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.page.elements import EMPTY, joined, paragraph
from dppipe.runs.statement.claims import one_of

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts
    from dppipe.runs.statement.statement import Statement

_STATUS = {
    "not private": "NOT PRIVATE",
    "failed": "NO CLAIM: the run failed",
    "seeded": "NO CLAIM: sampler and noise were seeded",
    "no claim": "NO CLAIM: the split is not covered",
    "certified": "CERTIFIED: a proven upper bound",
    "estimate": "ESTIMATE: not a bound",
}
_UNFINISHED = "NO CLAIM YET: the run has not ended"
_GOES_ON = (
    "This run is under way, or was killed: it has left no statement. What it was charged stays "
    "spent. `dppipe resume` goes on with it."
)
_PRIVATE_PAGE = (
    "DON'T RELEASE THIS PAGE. It shows numbers that were computed from private records without "
    "noise, which no guarantee covers. `report.html` is the page without them."
)


def verdict(facts: PageFacts) -> Markup:
    """Return the name of the run, its claim, and what kind of claim that is."""
    warning = EMPTY
    if facts.nonprivate:
        warning = paragraph(_PRIVATE_PAGE, style="alarm banner")
    title = Markup("<h1>Privacy report: {}</h1>\n").format(facts.plan.name)
    return Markup("<header>\n{}</header>\n").format(
        joined([warning, title, _badge(facts), _numbers(facts), _sentences(facts)])
    )


def _badge(facts: PageFacts) -> Markup:
    statement = facts.statement
    if statement is None:
        text = _UNFINISHED if facts.plan.private else _STATUS["not private"]
    else:
        text = _STATUS[statement.status_of_claim]
        if statement.status_of_claim == "certified" and not statement.protects:
            text = _STATUS["not private"]
    style = "good badge" if facts.claims else "alarm badge"
    return Markup('<p class="{}">{}</p>\n').format(style, text)


def _numbers(facts: PageFacts) -> Markup:
    """Return the claim in large type, where there is one."""
    plan = facts.plan
    if not facts.claims or plan.epsilon is None:
        return EMPTY
    numbers = [
        ("epsilon, at most", shown(plan.epsilon)),
        ("delta", shown_delta(plan.delta or 0.0)),
        ("protects", f"one {one_of(plan.unit)}"),
        ("relation", str(plan.relation)),
    ]
    cards = []
    for name, value in numbers:
        breakable = value.replace("_", "_\u200b")
        cards.append(Markup("<div><dt>{}</dt><dd>{}</dd></div>\n").format(name, breakable))
    return Markup('<dl class="numbers">\n{}</dl>\n').format(joined(cards))


def _sentences(facts: PageFacts) -> Markup:
    statement = facts.statement
    if statement is None:
        return paragraph(_GOES_ON, style="lead")
    first, second = statement.guarantee()
    lines = [paragraph(first, style="lead"), paragraph(second)]
    if statement.kind is not None:
        lines.append(paragraph(f"This run is an {statement.kind}.", style="alarm"))
    if statement.protects:
        lines.append(_ending(statement))
    return joined(lines)


def _ending(statement: Statement) -> Markup:
    """Say how the run ended, where that explains the claim."""
    if statement.status == "interrupted":
        return paragraph(
            "The run was interrupted and can go on. The claim is what its whole plan can cost, and "
            "holds for what it has left so far."
        )
    if statement.stopped_early:
        return paragraph(
            "A callback stopped the run early. The claim is what its whole plan can cost."
        )
    return EMPTY
