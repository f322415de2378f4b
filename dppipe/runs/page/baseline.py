"""Another run beside the run of a page, such as the same training without privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.runs.files import read_plan, read_summary
from dppipe.runs.page.metrics import Metric, metrics_of
from dppipe.runs.statement.writing import statement_of

if TYPE_CHECKING:
    from dppipe.runs.directory import RunDirectory


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What a page says of the other run."""

    name: str
    epsilon: float | None
    """What the other run claims; None where it claims nothing."""
    metrics: Sequence[Metric]
    protects: bool
    """Whether the other run promises anything. If not, its numbers follow from records without
    noise, and only the page under `nonprivate/` may show them."""

    def matching(self, metric: Metric) -> Metric | None:
        """Return the same metric of the other run; None where it has none."""
        for own in self.metrics:
            if own.plain_name == metric.plain_name:
                return own
        return None


def read_baseline(run: RunDirectory, *, nonprivate: bool) -> Baseline:
    """Read the metrics of another run, as far as a page may show them."""
    plan = read_plan(run)
    summary = read_summary(run, "status", "metrics")
    statement = statement_of(run)
    metrics, _ = metrics_of(summary, plan, nonprivate=nonprivate, place=str(run.summary))
    return Baseline(
        name=plan.name,
        epsilon=plan.epsilon if statement.protects else None,
        metrics=metrics,
        protects=statement.protects,
    )
