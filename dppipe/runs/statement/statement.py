"""The facts of a privacy statement: what is promised, on what it rests, what it doesn't cover.

A `Statement` is the plan of a run and what the run itself adds to it; `data.py` returns
`privacy.json`. It answers what NIST SP 800-226 and Ponomareva et al. (2023) ask of a claim.
Guarantee: under add_remove nothing that depends on the number of records is stated; a statement
that holds it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dppipe.errors import PrivacyRefusal
from dppipe.planning.plan import Plan
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.statement.claims import guarantee_of_plan
from dppipe.runs.statement.step_ranges import StepRanges


@dataclass(frozen=True, kw_only=True)
class ScopeTerms:
    """A budget that several runs share, with this run's whole plan counted."""

    epsilon: float
    delta: float
    epsilon_spent: float
    """What its runs together have spent, or may still spend."""
    runs: int
    """How many runs it has, this one among them."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """Which files of the run exist."""

    final_weights: bool = False
    checkpoint: bool = False
    curves: bool = False
    attacks: bool = False
    """Whether `dppipe attack` has left results, which no guarantee covers."""
    report: bool = False
    """Whether there is a page, `report.html`."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Everything that a reader needs to judge a run's claim."""

    plan: Plan
    """What the run committed to. Its `epsilon` is what is claimed."""
    status: str
    """How the run ended: completed, budget_exhausted, interrupted or failed."""
    stopped_early: bool = False
    """Whether a callback, such as EarlyStopping, ended the run before its plan did."""
    begun: str | None = None
    """When the run first started, in UTC."""
    ended: str | None = None
    starts: int = 1
    """How many times it was started or resumed."""
    epsilon_spent: float | None = None
    """What the executed steps cost, where that is less than what is claimed."""
    executed: StepRanges | None = None
    """What the ledger says of the charged steps; None where it has none."""
    updates: int | None = None
    """The steps that are in the final model, or in the last checkpoint."""
    independence: str | None = None
    """Why no record's gradient depends on another: "checked" by value, or "by construction"."""
    validates: bool = True
    """Whether there were records to validate on."""
    validation_looks: int = 0
    """How many times metrics on the validation records were recorded."""
    test_looks: int = 0
    """How many times the test records were scored."""
    scope_terms: ScopeTerms | None = None
    other_releases: int = 0
    """How many releases that aren't steps have left their value."""
    files: Files = Files()
    audit: str | None = None
    """What an audit of this run found: a lower bound, never a proof."""
    kind: str | None = None
    """Why the model of an audit's run isn't for use; None for an ordinary run."""
    versions: Mapping[str, str] = field(default_factory=dict)
    config_hash: str | None = None
    ledger_head: str | None = None

    def __post_init__(self) -> None:
        plan = self.plan
        if plan.relation == "add_remove" and plan.records is not None:
            raise PrivacyRefusal(
                "statement.records: expected none under add_remove, which keeps the number of "
                "records secret."
            )
        needed = (plan.epsilon, plan.delta, plan.relation, plan.accountant)
        if plan.private and None in needed:
            raise PrivacyRefusal(
                "statement: expected epsilon, delta, relation and accountant for a private run."
            )
        if plan.epsilon is not None and math.isnan(plan.epsilon):
            raise PrivacyRefusal("statement.epsilon: expected a number, got NaN.")

    @property
    def failed(self) -> bool:
        """Whether the run ended by an error: nothing is promised of what it left."""
        return self.status == "failed"

    @property
    def split(self) -> Literal["position", "hash"] | None:
        """How dppipe split the records; None where it didn't.

        Plans of earlier versions name a split even for a run without a spec, which has none.
        """
        return self.plan.split if self.plan.spec_hash else None

    @property
    def split_by_position(self) -> bool:
        """Whether one record decided where others went, which no epsilon here covers."""
        return self.plan.relation == "add_remove" and self.split == "position"

    @property
    def validation(self) -> Literal["public", "private", "none"]:
        """What the validation records were declared; "none" without any."""
        if self.validates or self.validation_looks:
            return self.plan.holdout
        return "none"

    @property
    def noisy_counts(self) -> bool:
        """Whether noisy counts of unclipped gradients were released beside each step."""
        steps = self.step_plan
        return steps is not None and steps.statistics_std is not None

    @property
    def step_plan(self) -> StepPlan | None:
        """The plan, where the learner takes steps."""
        return self.plan if isinstance(self.plan, StepPlan) else None

    @property
    def diagnostics(self) -> bool:
        """Whether training losses, norms or the like were recorded without noise."""
        return self.plan.diagnostics == "nonprivate"

    @property
    def public_weights(self) -> bool:
        """Whether training started from a file of weights that are taken as public."""
        return self.plan.pretrained and self.plan.earlier is None

    @property
    def protects(self) -> bool:
        """Whether the run promises anything at all."""
        plan = self.plan
        if self.failed or plan.reproducible or self.split_by_position:
            return False
        return plan.private and plan.certified and plan.epsilon != math.inf

    @property
    def status_of_claim(self) -> str:
        """What kind of claim this is."""
        if not self.plan.private:
            return "not private"
        if self.failed:
            return "failed"
        if self.plan.reproducible:
            return "seeded"
        if self.split_by_position:
            return "no claim"
        return "certified" if self.plan.certified else "estimate"

    def guarantee(self) -> tuple[str, str]:
        """Return the claim in two plain sentences."""
        return guarantee_of_plan(
            self.plan, failed=self.failed, split_by_position=self.split_by_position
        )
