"""The comparison as one HTML page: nothing is loaded from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dppipe.report.comparison.cells import Column, ranking_columns
from dppipe.report.comparison.picture import can_draw, frontier_svg
from dppipe.report.comparison.ranking import Comparison, Ranking

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f24; --paper: #fff; --line: #d5d9e0; --soft: #5c6470; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #16181c; --line: #3a3f47; --soft: #a2a9b4; }
}
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif;
       margin: 0 auto; max-width: 68rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid var(--line); text-align: right;
         white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } .words { text-align: left; }
tr.best td { font-weight: 600; }
svg { max-width: 100%; height: auto; } ul { padding-left: 1.2rem; }
li, details { color: var(--soft); }
@media print { body { max-width: none; padding: 0; } }
""".strip()


def comparison_page(comparison: Comparison, *, title: str) -> str:
    """Return a whole page: the frontier, a table for each ranking, and what must be said."""
    parts = [f"<h1>{escape(title)}</h1>", _picture(comparison)]
    parts += [_section(ranking, comparison) for ranking in comparison.rankings]
    parts.append(_list("Notes", comparison.notes))
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def _picture(comparison: Comparison) -> str:
    svg = frontier_svg(comparison)
    if svg is not None:
        return f'<h2>Privacy and utility</h2>\n<figure aria-label="frontier">{svg}</figure>'
    if can_draw(comparison):
        return "<p>The picture needs matplotlib: install dppipe[plot].</p>"
    return ""


def _section(ranking: Ranking, comparison: Comparison) -> str:
    columns = ranking_columns(ranking, comparison)
    head = "".join(f"<th{_words(column)}>{escape(column.name)}</th>" for column in columns)
    rows = []
    for number, setting in enumerate(ranking.settings):
        best = ' class="best"' if setting in ranking.frontier else ""
        cells = "".join(_cell(column, number) for column in columns)
        rows.append(f"<tr{best}>{cells}</tr>")
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n"
    return (
        f"<h2>{escape(ranking.title)}</h2>\n"
        f'<div class="wide">{table}</table></div>\n{_paths(ranking)}'
    )


def _cell(column: Column, number: int) -> str:
    return f"<td{_words(column)}>{escape(column.cells[number])}</td>"


def _words(column: Column) -> str:
    return "" if column.number else ' class="words"'


def _paths(ranking: Ranking) -> str:
    paths = [run.path for setting in ranking.settings for run in setting.runs]
    items = "".join(f"<li>{escape(path)}</li>" for path in paths)
    return f"<details><summary>{len(paths)} run directories</summary><ul>{items}</ul></details>"


def _list(title: str, sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<h2>{title}</h2>\n<ul>{items}</ul>" if sentences else ""
