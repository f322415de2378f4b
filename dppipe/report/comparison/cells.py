"""The cells of a comparison's tables: one text for each figure, in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dppipe.privacy.printing import shown, shown_share
from dppipe.report.comparison.options import short_names, shown_option
from dppipe.report.comparison.ranking import Comparison, Ranking
from dppipe.report.comparison.settings import Setting
from dppipe.report.comparison.spread import Spread

_CLAIMS = {"none": "NO CLAIM", "seeded": "NO PROTECTION", "not private": "NOT PRIVATE"}


@dataclass(frozen=True)
class Column:
    """One column of a ranking's table."""

    name: str
    cells: tuple[str, ...]
    spare: int = 0
    """How early a narrow table leaves it out: the largest number goes first, 0 never goes."""
    number: bool = True
    """Whether its cells stand at the right."""

    @property
    def width(self) -> int:
        """How many characters its widest text has."""
        return max(len(self.name), *map(len, self.cells))


def ranking_columns(ranking: Ranking, comparison: Comparison) -> list[Column]:
    """Return the columns of one ranking, in their order; empty ones are left out."""
    settings = ranking.settings
    columns = [_names(settings), *_options(settings, comparison)]
    columns += [
        Column("runs", tuple(str(len(one.runs)) for one in settings)),
        _endings(settings),
        Column("epsilon", tuple(_epsilon(one) for one in settings)),
    ]
    columns += _metrics(ranking, comparison)
    columns += [
        _column("seconds", settings, lambda one: one.seconds, shown_seconds, spare=1),
        _column("TPR at FPR 1 %", settings, lambda one: one.tpr_at_fpr_1_percent, _rates, spare=4),
    ]
    return [column for column in columns if any(column.cells)]


def shown_score(spread: Spread) -> str:
    """Return a mean and its standard deviation."""
    if spread.deviation is None:
        return f"{spread.mean:.4f}"
    return f"{spread.mean:.4f} +- {spread.deviation:.4f}"


def shown_seconds(spread: Spread) -> str:
    """Return a mean time."""
    return f"{spread.mean:.1f}" if spread.mean < 100 else f"{spread.mean:,.0f}"


def _names(settings: Sequence[Setting]) -> Column:
    """Name settings where their names differ; else the options alone tell them apart."""
    names = tuple(", ".join(one.names) for one in settings)
    return Column("name", names, number=False)


def _options(settings: Sequence[Setting], comparison: Comparison) -> list[Column]:
    shortened = short_names(comparison.options)
    columns = []
    for name in comparison.options:
        having = any(one.options.get(name) is not None for one in settings)
        if having:
            cells = tuple(shown_option(one.options.get(name)) for one in settings)
            # The column of epsilons says nearly the same.
            spare = 2 if name == "budget.epsilon" else 0
            columns.append(Column(shortened[name], cells, spare=spare))
    return columns


def _endings(settings: Sequence[Setting]) -> Column:
    """Say how runs ended; nothing where all of them completed."""
    if all(set(one.statuses) == {"completed"} for one in settings):
        return Column("ended", tuple("" for _ in settings))
    cells = []
    for one in settings:
        endings = []
        for status, count in one.statuses.items():
            words = status.replace("_", " ")
            endings.append(words if count == len(one.runs) else f"{count} {words}")
        cells.append(", ".join(endings))
    return Column("ended", tuple(cells), number=False)


def _metrics(ranking: Ranking, comparison: Comparison) -> list[Column]:
    """Return a column for each metric; the one that ranks comes first and marks the frontier."""
    names: dict[str, None] = {} if comparison.metric is None else {comparison.metric: None}
    for one in ranking.settings:
        names |= dict.fromkeys(one.metrics)
    columns = []
    for name in names:
        main = name == comparison.metric
        cells = []
        for one in ranking.settings:
            spread = one.metrics.get(name)
            text = "" if spread is None else shown_score(spread)
            if spread is not None and spread.count != one.finished:
                text += f" (of {spread.count})"
            if main and text and ranking.frontier:
                text += " *" if one in ranking.frontier else "  "
            cells.append(text)
        columns.append(Column(name, tuple(cells), spare=0 if main else 3))
    return columns


def _column(
    name: str,
    settings: Sequence[Setting],
    get: Callable[[Setting], Spread | None],
    show: Callable[[Spread], str],
    *,
    spare: int,
) -> Column:
    cells = []
    for one in settings:
        spread = get(one)
        cells.append("" if spread is None else show(spread))
    return Column(name, tuple(cells), spare=spare)


def _rates(spread: Spread) -> str:
    return _span(spread, shown_share)


def _epsilon(one: Setting) -> str:
    return _CLAIMS[one.claim] if one.epsilon is None else _span(one.epsilon, shown)


def _span(spread: Spread, write: Callable[[float], str]) -> str:
    low = write(spread.least)
    high = write(spread.most)
    return high if low == high else f"{low} to {high}"
