"""The top of a page: what is claimed, in large type and in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.page.markup.elements import EMPTY, joined, paragraph, prose
from dppipe.runs.page.markup.wording import (
    compared_with,
    decimal_delta,
    how_it_ended,
    one_in,
    whose_records,
)
from dppipe.runs.statement.claims import growth, one_of

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.runs.page.facts import PageFacts
    from dppipe.runs.statement.statement import Statement

_STATUS = {
    "not private": "NOT PRIVATE",
    "failed": "NO CLAIM: the run failed",
    "seeded": "NO CLAIM: sampler and noise were seeded",
    "no claim": "NO CLAIM: the split is not covered",
    "certified": "PROVEN: an upper bound, computed by this software; not audited by anyone else",
    "estimate": "ESTIMATE: not a bound",
}
_UNFINISHED = "NO CLAIM YET: the run has not ended"
_MADE_BY = (
    "A privacy report, made by dppipe, a tool that trains models under differential privacy. "
    "The run {ended}."
)
_GOES_ON = (
    "This run is under way, or was killed: it has left no statement. What it was charged stays "
    "spent. `dppipe resume` goes on with it."
)
_PRIVATE_PAGE = (
    "DON'T RELEASE THIS PAGE. It shows numbers that were computed from private records without "
    "noise, which no guarantee covers. `report.html` is the page without them."
)
_ROUNDING = (
    "The proof is about exact numbers. A computer rounds them (floating point), and no proof here "
    "covers that rounding."
)
_ON_A_GRID = (
    "The proof is about exact numbers. Noise was added on a common grid, so that it is not blurred "
    "by rounding. The sums before it were rounded (floating point), which no proof here covers."
)


def verdict(facts: PageFacts) -> Markup:
    """Return the name of the run, its claim, and what kind of claim that is."""
    warning = EMPTY
    if facts.nonprivate:
        warning = paragraph(_PRIVATE_PAGE, style="alarm banner")
    title = Markup("<h1>Run \u2018{}\u2019</h1>\n").format(facts.plan.name)
    ended = how_it_ended(facts.statement, starts=facts.starts)
    made = paragraph(_MADE_BY.format(ended=ended), style="small")
    return Markup("<header>\n{}</header>\n").format(
        joined([warning, title, made, _badge(facts), _numbers(facts), _sentences(facts)])
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
    unit = one_of(plan.unit)
    delta = plan.delta or 0.0
    together = whose_records(plan) if plan.unit == "user" else "one at a time"
    numbers = [
        ("epsilon, at most", shown(plan.epsilon), f"e^epsilon: {growth(plan.epsilon)}", ""),
        ("delta", shown_delta(delta), one_in(delta), ""),
        ("protects", f"each {unit}", together, "words"),
        ("compared with", compared_with(plan), f"`{plan.relation}`", "words"),
    ]
    cards = []
    for name, value, note, style in numbers:
        cards.append(
            Markup('<div><dt>{}</dt><dd class="{}">{}</dd><dd class="note">{}</dd></div>\n').format(
                name, style, value, prose(note)
            )
        )
    return Markup('<dl class="numbers">\n{}</dl>\n').format(joined(cards))


def _sentences(facts: PageFacts) -> Markup:
    statement = facts.statement
    if statement is None:
        return paragraph(_GOES_ON, style="lead")
    if statement.protects:
        lines = [paragraph(_in_short(facts.plan), style="lead")]
        lines += [paragraph(sentence) for sentence in _ending(statement)]
        lines.append(paragraph(_ON_A_GRID if facts.plan.secure else _ROUNDING))
    else:
        first, second = statement.guarantee()
        lines = [paragraph(first, style="lead"), paragraph(second)]
    if statement.kind is not None:
        lines.append(paragraph(f"This run is an {statement.kind}.", style="alarm"))
    return joined(lines)


def _in_short(plan: Plan) -> str:
    """Return what the claim says of any conclusion that is drawn from what was released."""
    unit = one_of(plan.unit)
    most = f"{growth(plan.epsilon or 0.0)} x p"
    if plan.delta:
        most += f" + {decimal_delta(plan.delta)}"
    return (
        f"Take any {unit}, and any conclusion that somebody draws from what was released. If the "
        f"conclusion had probability p with {compared_with(plan)}, it has at most {most} with the "
        f"{unit} as it is."
    )


def _ending(statement: Statement) -> Iterator[str]:
    """Say how the run ended, where that explains the claim."""
    if statement.status == "interrupted":
        yield (
            "The run was interrupted and can go on. The claim is what its whole plan can cost, and "
            "holds for what it has left so far."
        )
    elif statement.stopped_early:
        yield "A callback stopped the run early. The claim is what its whole plan can cost."
