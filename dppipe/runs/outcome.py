"""How a run ended: the numbers of `summary.json`."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from dppipe.runs.showing.confusion import fold_cells

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan

Stop = Literal["early", "interrupted", "failed"]
"""What stops a run before its plan does: a callback (EarlyStopping), a signal, or an error."""
Status = Literal["completed", "budget_exhausted", "interrupted", "failed"]


class FitFacts(TypedDict, total=False):
    """What the callback finds out about a fit, for the summary."""

    validates: bool
    """Whether there is data to validate on."""
    validation_records: int | None
    """How many records validate, where that number is public; None where it isn't known."""
    physical_batch_size: int | None
    """How many records went through the model at once, on the first rank, whoever chose it."""
    independence: str | None
    """Why no row's gradient depends on another row: "checked" by value, or "by construction"."""


_PACKAGES = ("dppipe", "torch", "pytorch-lightning", "dp-accounting", "numpy", "scipy")


def software_versions() -> dict[str, str]:
    """Return the versions of everything that a number of the run may depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        found[name] = version(name)
    return found


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run of a plan ended.

    Guarantee: `epsilon` is what may be claimed, whatever ended the run. It is what the whole plan
    costs: the moment of a stop may depend on what was released.
    """

    plan: Plan
    run_dir: str
    stopped: Stop | None
    """What ended the run before its plan did."""
    steps: int
    """The updates in the model."""
    charged: int
    """The sum of the ledger's counts: steps, or epochs where they are charged as a whole."""
    last_step: int
    """The last step that the ledger charges."""
    metrics: Mapping[str, float]
    validations: int
    """How many times the validation split was scored."""
    validates: bool
    physical_batch_size: int | None
    independence: str | None
    seconds: float | None
    """How long the run took; None for a search, where it would tell the number of runs."""
    ledger_head: str | None
    begun: str | None = None
    """When the run first started, in UTC."""
    ended: str | None = None
    starts: int = 1
    """How many times the run was started or resumed."""
    versions: Mapping[str, str] = field(default_factory=software_versions)
    validation_records: int | None = None
    """How many records validate, where that number is public and known."""
    scope: Mapping[str, Any] | None = None
    """The shared budget at the run's end, with all that the run had reserved; None without one."""

    @property
    def status(self) -> Status:
        """How the run ended."""
        if self.stopped in ("interrupted", "failed"):
            return self.stopped
        by_filter = self.plan.schedule == "filter" and self.last_step < self.plan.steps
        by_plan = self.plan.ends_at == "steps" and not by_filter
        return "completed" if by_plan or self.stopped_early else "budget_exhausted"

    @property
    def stopped_early(self) -> bool:
        """Whether a callback, such as EarlyStopping, ended the run before its plan did."""
        return self.stopped == "early"

    @property
    def epsilon(self) -> float | None:
        """What may be claimed; None without a budget."""
        return self.plan.epsilon

    @property
    def epsilon_spent(self) -> float | None:
        """What the charged steps cost; None without a budget."""
        return self.plan.epsilon_after(self.last_step) if self.plan.private else None

    @property
    def certified(self) -> bool:
        """Whether `epsilon` is a proven bound for what the run left: not for a run that failed."""
        return self.plan.certified and self.stopped != "failed"

    def to_data(self) -> dict[str, Any]:
        """Return the plain data of `summary.json`; the order of fields is part of the format."""
        return {
            "run_dir": self.run_dir,
            "status": self.status,
            "stopped_early": self.stopped_early,
            "steps": self.steps,
            "charged": self.charged,
            "epsilon": self.epsilon,
            "epsilon_spent": self.epsilon_spent,
            "delta": self.plan.delta,
            "relation": self.plan.relation,
            "unit": self.plan.unit,
            "accountant": self.plan.accountant,
            "certified": self.certified,
            "metrics": plain_metrics(self.metrics),
            "validations": self.validations,
            "validates": self.validates,
            "validation_records": self.validation_records,
            "physical_batch_size": self.physical_batch_size,
            "independence": self.independence,
            "seconds": self.seconds,
            "ledger_head": self.ledger_head,
            "begun": self.begun,
            "ended": self.ended,
            "starts": self.starts,
            "versions": dict(self.versions),
            "scope": None if self.scope is None else dict(self.scope),
        }


def plain_metrics(metrics: Mapping[str, float]) -> dict[str, Any]:
    """Return metrics as JSON can hold them.

    What isn't finite (a diverged model) is null, and a confusion matrix is a list of rows.
    """
    plain: dict[str, float | None] = {}
    for name, value in metrics.items():
        plain[name] = value if math.isfinite(value) else None
    return fold_cells(plain)
