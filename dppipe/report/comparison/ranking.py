"""The comparison: settings ranked where their epsilons are of one kind, and what must be said.

Epsilons under another relation, unit or delta, and metrics on other data, don't compare: each kind
has a ranking of its own. Non-private settings stand apart, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dppipe.errors import UsageError
from dppipe.privacy.printing import EPSILON_DIGITS, shown_delta
from dppipe.privacy.rounding import round_up
from dppipe.report.comparison.reading import ComparedRun
from dppipe.report.comparison.settings import Setting, Terms, group_settings, has_private_metrics

_FIRST = ("accuracy", "auroc", "r2", "f1", "loss", "mse")
_FALLING = ("loss", "mse", "mae", "rmse", "error", "nll", "perplexity")
"""Words in the names of metrics of which less is better."""
_DATA = ("data.kind", "data.path", "data.root", "data.class_path", "data.size", "plan.records")
_WORDS = {"seeded": "seeded noise: no protection", "not private": "NOT PRIVATE"}


@dataclass(frozen=True)
class Ranking:
    """Settings whose epsilons are of one kind, the best first, those without a score last."""

    title: str
    settings: tuple[Setting, ...]
    frontier: tuple[Setting, ...]
    """Those that no other beats: none has a lower epsilon and as good a mean, or a better one at
    the same epsilon. From small epsilons to large ones."""


@dataclass(frozen=True)
class Comparison:
    """All that is shown of several runs."""

    metric: str | None
    """By what settings are ranked; None where no run has a metric that may be shown."""
    rankings: tuple[Ranking, ...]
    options: tuple[str, ...]
    """The options in which settings differ."""
    notes: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """Return plain data, for programs."""
        rankings = []
        for ranking in self.rankings:
            frontier = [ranking.settings.index(one) for one in ranking.frontier]
            settings = [setting.to_data() for setting in ranking.settings]
            rankings.append({"title": ranking.title, "settings": settings, "frontier": frontier})
        return {
            "metric": self.metric,
            "options": list(self.options),
            "rankings": rankings,
            "notes": list(self.notes),
        }


def compare_runs(
    runs: Sequence[ComparedRun], *, metric: str | None = None, nonprivate: bool = False
) -> Comparison:
    """Compare runs, setting by setting.

    Args:
        runs: What is compared.
        metric: By what settings are ranked; if not given, by one that most of them have.
        nonprivate: Whether metrics of a private holdout are shown.
    """
    settings = group_settings(runs, nonprivate=nonprivate)
    chosen = _metric(settings, asked=metric, hidden=not nonprivate and has_private_metrics(runs))
    together: dict[tuple[str, Terms], list[Setting]] = {}
    for setting in settings:
        kind = setting.claim if setting.claim in _WORDS else "private"
        terms = setting.terms if kind == "private" else (None, None, None)
        together.setdefault((kind, terms), []).append(setting)
    order = ["private", "seeded", "not private"]
    ranked = sorted(together.items(), key=lambda item: order.index(item[0][0]))
    rankings = [_ranking(kind, terms, found, chosen) for (kind, terms), found in ranked]
    options: dict[str, None] = {}
    for setting in settings:
        options |= dict.fromkeys(setting.options)
    notes = _notes(rankings, runs, chosen, nonprivate=nonprivate)
    return Comparison(chosen, tuple(rankings), tuple(options), tuple(notes))


def falls(metric: str) -> bool:
    """Whether less of a metric is better, by its name."""
    name = metric.rsplit("/", 1)[-1].lower()
    return any(word in name.replace("-", "_").split("_") for word in _FALLING)


def _metric(settings: Sequence[Setting], *, asked: str | None, hidden: bool) -> str | None:
    """Return the metric by which settings are ranked."""
    having: dict[str, int] = {}
    for setting in settings:
        for name in setting.metrics:
            having[name] = having.get(name, 0) + 1
    if asked is not None and asked not in having:
        known = ", ".join(sorted(having)) or "none"
        way = " --nonprivate shows those of a private holdout." if hidden else ""
        raise UsageError(
            f"--metric: expected a metric of these runs ({known}), got {asked!r}.{way}"
        )
    if asked is not None or not having:
        return asked

    def place(name: str) -> tuple[int, int, str]:
        last = name.rsplit("/", 1)[-1]
        liked = _FIRST.index(last) if last in _FIRST else len(_FIRST)
        return (-having[name], liked, name.replace("val/", " val/"))

    return min(having, key=place)


def _ranking(kind: str, terms: Terms, settings: Sequence[Setting], metric: str | None) -> Ranking:
    relation, unit, delta = terms
    title = _WORDS.get(kind, "")
    if not title:
        shown = shown_delta(delta) if delta is not None else "unknown"
        title = f"{relation or 'unknown relation'}, one {unit or 'unit'}, delta {shown}"

    def place(setting: Setting) -> tuple[bool, float]:
        score = _score(setting, metric)
        return (score is None, 0.0 if score is None else -score)

    ordered = sorted(settings, key=place)
    return Ranking(title, tuple(ordered), _frontier(ordered, metric))


def _score(setting: Setting, metric: str | None) -> float | None:
    """Return the mean by which a setting is ranked, the more the better; None without one."""
    if metric is None or metric not in setting.metrics:
        return None
    mean = setting.metrics[metric].mean
    if not math.isfinite(mean):
        return None
    return -mean if falls(metric) else mean


def _frontier(settings: Sequence[Setting], metric: str | None) -> tuple[Setting, ...]:
    """Return the settings that no other beats, by their largest epsilon and their mean."""
    known: list[tuple[float, float, Setting]] = []
    for setting in settings:
        score = _score(setting, metric)
        if setting.epsilon is not None and score is not None:
            # What differs only beyond the digits that are shown is the same epsilon.
            epsilon = round_up(setting.epsilon.most, EPSILON_DIGITS)
            known.append((epsilon, -score, setting))
    best = math.inf
    kept = []
    for _, loss, setting in sorted(known, key=lambda found: found[:2]):
        if loss < best:
            best = loss
            kept.append(setting)
    return tuple(kept)


def _notes(
    rankings: Sequence[Ranking],
    runs: Sequence[ComparedRun],
    metric: str | None,
    *,
    nonprivate: bool,
) -> list[str]:
    """Return the sentences without which the numbers could be misread."""
    settings = [setting for ranking in rankings for setting in ranking.settings]
    notes = []
    if sum(1 for ranking in rankings if ranking.settings[0].claim in ("epsilon", "none")) > 1:
        notes.append(
            "Epsilons under another relation, unit or delta don't compare: each has a ranking of "
            "its own."
        )
    if any(name in setting.options for setting in settings for name in _DATA):
        notes.append("Settings differ in their data: their metrics may not compare.")
    claiming = [run for run in runs if run.claim == "epsilon"]
    if len(claiming) > 1 and not all(run.options.get("data.public") for run in claiming):
        notes.append(
            "Each epsilon is that of one run. Runs on the same records add up, and so does "
            "choosing among them by scores on private records: see `dppipe budget` and "
            "`dppipe tune`."
        )
    if any(not run.finished for run in runs):
        notes.append("Runs that failed or haven't ended claim nothing and are in no mean.")
    if any(run.claim == "none" and run.finished for run in runs):
        notes.append("A finished run whose statement withdraws its claim is shown without one.")
    if has_private_metrics(runs) and nonprivate:
        notes.append("Metrics under nonprivate/ were computed without noise: don't release them.")
    elif has_private_metrics(runs):
        notes.append("Metrics of a private holdout are left out: --nonprivate shows them.")
    if metric is not None:
        better = "less" if falls(metric) else "more"
        notes.append(f"Ranked by the mean of {metric}, {better} is better.")
    if any(len(ranking.frontier) > 0 for ranking in rankings):
        notes.append("* no other setting has a better mean at the same or a lower epsilon.")
    return notes
