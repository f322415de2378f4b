"""A whole page from its facts: one HTML file that loads nothing.

The same facts give the same bytes. Each section is a file of this package, and a pure function from
facts to markup; `style.css` has the colours of light, dark and print.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.runs.page.attackers import attackers
from dppipe.runs.page.epsilon_curve import epsilon_curve
from dppipe.runs.page.exclusions import not_covered_section
from dppipe.runs.page.markup.elements import joined
from dppipe.runs.page.meaning import meaning
from dppipe.runs.page.publishing import files
from dppipe.runs.page.schedule import schedule
from dppipe.runs.page.specialists import facts_section
from dppipe.runs.page.timeline import timeline
from dppipe.runs.page.trade_off import trade_off
from dppipe.runs.page.utility import private_findings, utility
from dppipe.runs.page.verdict import verdict

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts

_SECTIONS = (
    verdict,
    meaning,
    not_covered_section,
    files,
    epsilon_curve,
    attackers,
    trade_off,
    utility,
    private_findings,
    schedule,
    timeline,
    facts_section,
)
_PAGE = Markup(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{}">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<link rel="icon" href="data:,">
<title>{}</title>
<style>
{}</style>
</head>
<body>
<main>
{}</main>
</body>
</html>
"""
)
_LOADS_NOTHING = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may do with the page: it loads nothing and runs nothing."""


def page_of(facts: PageFacts) -> str:
    """Return the page of a run as HTML."""
    style = Markup(resources.files(__package__).joinpath("style.css").read_text("utf-8"))
    body = joined(part(facts) for part in _SECTIONS)
    title = f"Privacy report of the run {facts.plan.name}"
    return str(_PAGE.format(_LOADS_NOTHING, title, style, body))
