"""Everything that a page shows, read from a run directory's files in one place.

Guarantee: nothing under `nonprivate/` is read, and no metric of private records is kept, unless the
page is the one that is written there. Curves and checkpoints are never opened, and nothing depends
on where the directory stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.ledger_reading import LedgerCorrupt, LedgerRows, read_ledger
from dppipe.privacy.tradeoff.blow_up import BlowUp, blow_up_through
from dppipe.privacy.tradeoff.profile import PROFILE, Profile, stated_profile
from dppipe.runs.files import read_plan, read_summary
from dppipe.runs.origin import dates, resumptions
from dppipe.runs.page.baseline import Baseline
from dppipe.runs.page.metrics import Metric, metrics_of
from dppipe.runs.statement.audit_findings import result_of_audit
from dppipe.runs.statement.writing import statement_of

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.runs.directory import RunDirectory
    from dppipe.runs.statement.statement import Statement

_TORN = b'"torn":'


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What an attack on the model has found; only the page under `nonprivate/` shows it."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PageFacts:
    """What one page shows of one run."""

    plan: Plan
    statement: Statement | None
    """What the run claims; None while it hasn't ended, or was killed."""
    ledger: LedgerRows | None
    """What was charged; None for a run without a budget."""
    torn_rows: Sequence[int] = ()
    """The rows that a crash had cut off, from 1."""
    plan_hash: str
    metrics: Sequence[Metric] = ()
    left_out: int = 0
    """How many metrics of private records were left out."""
    begun: str | None = None
    starts: int = 1
    resumed: Sequence[Mapping[str, Any]] = ()
    """What was noted each time that the run went on."""
    audit: Mapping[str, Any] | None = None
    """The contents of `audit.json`, where the run was audited from inside."""
    baseline: Baseline | None = None
    nonprivate: bool = False
    """Whether the page shows what no guarantee covers."""
    findings: Sequence[Findings] = ()

    @property
    def claims(self) -> bool:
        """Whether anything is promised."""
        return self.statement is not None and self.statement.protects

    @property
    def step_plan(self) -> StepPlan | None:
        """The plan, where the learner takes steps."""
        return self.plan if isinstance(self.plan, StepPlan) else None

    @property
    def has_whole_profile(self) -> bool:
        """Whether the plan keeps the profile itself, not only a few points of it."""
        return PROFILE in self.plan.whole_curve

    @cached_property
    def profile(self) -> Profile | None:
        """The delta that the whole plan has at each epsilon; None where nothing is known."""
        plan = self.plan
        if plan.epsilon is None or plan.delta is None:
            return None
        return stated_profile(plan.whole_curve, epsilon=plan.epsilon, delta=plan.delta)

    @cached_property
    def blow_up(self) -> BlowUp | None:
        """What any attacker can reach; None where nothing is claimed."""
        if not self.claims or self.profile is None:
            return None
        return blow_up_through(*self.profile)

    def recognised(self, false_positive_rate: float) -> float:
        """Return how many units any attacker recognises at most, at a rate of false alarms."""
        stated = self.plan.attack_limits
        for limit in () if stated is None else stated.membership:
            if limit.false_positive_rate == false_positive_rate:
                return limit.true_positive_rate
        if self.blow_up is None:
            return 1.0
        return min(1.0, float(self.blow_up(false_positive_rate)))


def page_facts(
    run: RunDirectory, *, nonprivate: bool = False, baseline: Baseline | None = None
) -> PageFacts:
    """Read what the page of a run shows.

    Args:
        run: The run.
        nonprivate: Whether it may show what no guarantee covers.
        baseline: Another run to compare with.
    """
    try:
        return _read(run, nonprivate=nonprivate, baseline=baseline)
    except LedgerCorrupt as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        place = error.filename or run.path
        raise UsageError(
            f"{place}: expected a file that can be read, got: {error.strerror}."
        ) from error


def _read(run: RunDirectory, *, nonprivate: bool, baseline: Baseline | None) -> PageFacts:
    plan = read_plan(run)
    summary = read_summary(run)
    written = run.plan.read_bytes()
    kept, left_out = metrics_of(summary, plan, nonprivate=nonprivate, place=str(run.summary))
    started = dates(run)
    return PageFacts(
        plan=plan,
        statement=statement_of(run, report=True) if summary else None,
        ledger=read_ledger(run.ledger, plan=written) if plan.private else None,
        torn_rows=_torn_rows(run) if plan.private else (),
        plan_hash=hashlib.sha256(written).hexdigest(),
        metrics=kept,
        left_out=left_out,
        begun=summary.get("begun") if summary else _begun(started, plan),
        starts=summary.get("starts", started["starts"]),
        resumed=resumptions(run),
        audit=result_of_audit(run),
        baseline=baseline,
        nonprivate=nonprivate,
        findings=_findings(run) if nonprivate else (),
    )


def _begun(started: Mapping[str, Any], plan: Plan) -> str | None:
    """Return when an unfinished run began; a search says nothing of times."""
    begun = started["begun"]
    return begun if isinstance(begun, str) and not hasattr(plan, "search") else None


def _torn_rows(run: RunDirectory) -> list[int]:
    """Return the numbers of the rows that were closed after a crash had cut them off."""
    lines = run.ledger.read_bytes().splitlines()
    return [number for number, line in enumerate(lines, start=1) if _TORN in line]


def _findings(run: RunDirectory) -> list[Findings]:
    """Return the pages of attacks on the model."""
    found = []
    for page in sorted(run.attacks.glob("*/attack.md")):
        found.append(Findings(name=page.parent.name, text=page.read_text(errors="replace")))
    return found
