"""How a run ended: the numbers of `summary.json`."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan

Stop = Literal["early", "interrupted", "failed"]
"""What stops a run before its plan does: a callback (EarlyStopping), a signal, or an error."""
Status = Literal["completed", "budget_exhausted", "interrupted", "failed"]


def software_versions() -> dict[str, str]:
    """Give the versions of everything that a number of the run may depend on."""
    packages = ("dppipe", "torch", "pytorch-lightning", "dp-accounting", "numpy", "scipy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Guarantee: `epsilon` is what may be claimed. A run that ended by its plan claims what it spent; one that was stopped
    earlier by anything else claims the committed maximum, because the moment of the stop may depend on what was released.
    """

    run_dir: str
    status: Status
    stopped_early: bool
    """Whether a callback, such as EarlyStopping, ended the run before its plan did."""
    steps: int
    charged: int
    """The sum of the ledger's counts: steps, or epochs where they are charged as a whole."""
    epsilon: float | None
    epsilon_spent: float | None
    delta: float | None
    relation: str | None
    unit: str
    accountant: str | None
    certified: bool
    metrics: Mapping[str, float]
    validations: int
    """How many times the validation split was scored."""
    validates: bool
    """Whether there is data to validate on."""
    physical_batch_size: int | None
    """How many records went through the model at once, on the first rank, whoever chose it."""
    independence: str | None
    """Why no row's gradient depends on another row: "checked" by value, or "by construction"."""
    seconds: float
    ledger_head: str | None
    begun: str | None = None
    """When the run first started, in UTC."""
    ended: str | None = None
    starts: int = 1
    """How many times the run was started or resumed."""
    versions: Mapping[str, str] = field(default_factory=software_versions)
    scope: Mapping[str, Any] | None = None
    """The shared budget at the run's end, with all that the run had reserved; None without one."""

    @classmethod
    def of(
        cls, plan: Plan, *, stopped: Stop | None, charged: int, last_step: int, **facts: Any
    ) -> Outcome:
        """Work out the status and the claim from the plan and what was charged, up to the last step of the ledger."""
        by_filter = plan.schedule == "filter" and last_step < plan.steps
        status: Status = "budget_exhausted"
        if stopped == "early" or (plan.ends_at == "steps" and not by_filter):
            status = "completed"
        if stopped in ("interrupted", "failed"):
            status = stopped
        return cls(
            status=status,
            stopped_early=stopped == "early",
            charged=charged,
            epsilon=plan.epsilon,
            epsilon_spent=plan.epsilon_after(last_step) if plan.private else None,
            delta=plan.delta,
            relation=plan.relation,
            unit=plan.unit,
            accountant=plan.accountant,
            certified=plan.certified and stopped != "failed",
            **facts,
        )

    def to_data(self) -> dict[str, Any]:
        """Give the plain data of `summary.json`."""
        return asdict(self) | {"metrics": plain_metrics(self.metrics)}


def plain_metrics(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Give metrics as JSON can hold them: what isn't finite, of a model that has diverged, is null."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
