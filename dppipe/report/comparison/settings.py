"""Runs of one setting put together: seeds are averaged, whatever else differs is a row of its own.

Only runs that have ended as planned take part in epsilons and means. The others are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dppipe.report.comparison.options import differing_options
from dppipe.report.comparison.reading import NONPRIVATE, Claim, ComparedRun
from dppipe.report.comparison.spread import Spread

Terms = tuple[str | None, str | None, float | None]
"""What an epsilon is measured under: relation, unit and delta."""


@dataclass(frozen=True)
class Setting:
    """All runs of one setting."""

    names: tuple[str, ...]
    options: Mapping[str, Any]
    """The options in which settings differ."""
    terms: Terms
    runs: tuple[ComparedRun, ...]
    claim: Claim
    epsilon: Spread | None
    tpr_at_fpr_1_percent: Spread | None
    """What any attacker reaches at most; None unless each run with a claim has such a limit."""
    metrics: Mapping[str, Spread]
    """Each metric over the finished runs that have it."""
    seconds: Spread | None

    @property
    def statuses(self) -> dict[str, int]:
        """How many runs ended in each way."""
        return dict(Counter(run.status for run in self.runs))

    @property
    def finished(self) -> int:
        """How many runs ended as planned."""
        return sum(run.finished for run in self.runs)

    def to_data(self) -> dict[str, Any]:
        """Return plain data, for programs."""
        from dataclasses import asdict

        relation, unit, delta = self.terms
        claims = {
            "claim": self.claim,
            "epsilon": None if self.epsilon is None else asdict(self.epsilon),
            "delta": delta,
            "relation": relation,
            "unit": unit,
            "tpr_at_fpr_1_percent": None
            if self.tpr_at_fpr_1_percent is None
            else asdict(self.tpr_at_fpr_1_percent),
        }
        return {
            "names": list(self.names),
            "options": dict(self.options),
            "runs": len(self.runs),
            "statuses": self.statuses,
            "seeds": [run.seed for run in self.runs],
            **claims,
            "metrics": {name: asdict(spread) for name, spread in self.metrics.items()},
            "seconds": None if self.seconds is None else asdict(self.seconds),
            "paths": [run.path for run in self.runs],
        }


def group_settings(runs: Sequence[ComparedRun], *, nonprivate: bool = False) -> list[Setting]:
    """Put the runs of each setting together, in the order in which settings come.

    Args:
        runs: What is compared.
        nonprivate: Whether metrics of a private holdout are among the metrics.
    """
    together: dict[str, list[ComparedRun]] = {}
    for run in runs:
        together.setdefault(_key(run), []).append(run)
    groups = list(together.values())
    differing = differing_options([group[0].options for group in groups])
    return [_setting(group, differing, nonprivate=nonprivate) for group in groups]


def has_private_metrics(runs: Sequence[ComparedRun]) -> bool:
    """Whether some run has metrics of a private holdout."""
    return any(any(name.startswith(NONPRIVATE) for name in run.metrics) for run in runs)


def _key(run: ComparedRun) -> str:
    """Return what all runs of a setting have in common."""
    return repr((sorted(run.options.items()), run.relation, run.unit, run.delta, _kept(run.claim)))


def _kept(claim: Claim) -> str:
    """Return the part of a claim that belongs to the setting, not to how a run ended."""
    return claim if claim in ("seeded", "not private") else "private"


def _setting(runs: Sequence[ComparedRun], differing: Sequence[str], *, nonprivate: bool) -> Setting:
    first = runs[0]
    finished = [run for run in runs if run.finished]
    claiming = [run for run in runs if run.claim == "epsilon"]
    epsilons = [run.epsilon for run in claiming if run.epsilon is not None]
    limits = [run.tpr_at_fpr_1_percent for run in claiming]
    rates = [rate for rate in limits if rate is not None]
    seconds = [run.seconds for run in finished if run.seconds is not None]
    options = {name: first.options[name] for name in differing if name in first.options}
    return Setting(
        names=tuple(dict.fromkeys(run.name for run in runs)),
        options=options,
        terms=(first.relation, first.unit, first.delta),
        runs=tuple(runs),
        claim=claiming[0].claim if claiming else first.claim,
        epsilon=Spread.of(epsilons) if epsilons else None,
        tpr_at_fpr_1_percent=Spread.of(rates) if rates and len(rates) == len(limits) else None,
        metrics=_metrics(finished, nonprivate=nonprivate),
        seconds=Spread.of(seconds) if seconds else None,
    )


def _metrics(runs: Sequence[ComparedRun], *, nonprivate: bool) -> dict[str, Spread]:
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, value in run.metrics.items():
            if nonprivate or not name.startswith(NONPRIVATE):
                values.setdefault(name, []).append(value)
    return {name: Spread.of(found) for name, found in values.items()}
