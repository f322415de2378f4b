"""The facts of a privacy statement: what is promised, on what it rests, what it doesn't cover.

A `Statement` holds plain values only; `to_data` returns `privacy.json`. It answers what NIST SP
800-226 and Ponomareva et al. (2023) ask of a claim. Epsilon is always rounded up.
Guarantee: under add_remove nothing that depends on the number of records is stated; a statement
that holds it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.runs.statement.claims import guarantee_sentences


@dataclass(frozen=True, kw_only=True)
class Course:
    """The numbers that a run's steps were planned or executed with; each range is (least, most)."""

    steps: int
    sample_rate: tuple[float, float]
    noise_multiplier: tuple[float, float]
    max_grad_norm: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the records came from."""

    kind: str
    """The data kind, or the class of the dataset."""
    files: tuple[str, ...] = ()
    """The files and folders that the spec names."""
    user: str | None = None
    """The column, array or attribute that says whose each record is."""
    on_bad_record: Literal["refuse", "drop"] = "drop"
    """What became of a record that can't be used."""


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
class EarlierRun:
    """A private run whose weights training started from."""

    run_dir: str
    charged: int
    ledger_head: str


@dataclass(frozen=True, kw_only=True)
class Files:
    """Which files of the run exist."""

    final_weights: bool = False
    checkpoint: bool = False
    statistics: bool = False
    curves: bool = False


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Everything that a reader needs to judge a run's claim."""

    name: str
    status: str
    """How the run ended: completed, budget_exhausted, interrupted or failed."""
    stopped_early: bool = False
    """Whether a callback, such as EarlyStopping, ended the run before its plan did."""
    private: bool
    """False for `budget: none`, where nothing is promised."""
    reproducible: bool
    """Whether sampler and noise were seeded, so that the run gives no protection."""
    unit: str
    max_records_per_user: int | None = None
    """How many records of a user take part in a step at most."""
    relation: Relation | None = None
    records: int | None = None
    """The number of training records or users; None where the relation keeps it secret."""
    source: Source | None = None
    """Where the records came from; None where that isn't known."""
    split: Literal["position", "hash"] | None = None
    """How dppipe split the records; None where it didn't."""
    begun: str | None = None
    """When the run first started, in UTC."""
    ended: str | None = None
    starts: int = 1
    """How many times it was started or resumed."""
    epsilon: float | None = None
    """What is claimed."""
    epsilon_spent: float | None = None
    """What the executed steps cost, where that is less than what is claimed."""
    budget_epsilon: float | None = None
    delta: float | None = None
    curve: Mapping[str, Any] = field(default_factory=dict)
    """The whole privacy curve, as the composition's `points()` returns it."""
    accountant: str | None = None
    certified: bool = False
    schedule: Literal["committed", "filter"] = "committed"
    """Whether the steps were fixed before the first release, or admitted by a filter."""
    sampler: str = "poisson"
    mechanism: str = "gaussian"
    secure: bool = False
    """Whether sums and noise were rounded to a common grid before they were added."""
    clipping: str = "flat"
    averages: bool = False
    """Whether averages of records were clipped, so that noise is scaled to twice the bound."""
    noisy_counts: bool = False
    """Whether noisy counts of unclipped gradients were released beside each step."""
    failure_delta: float = 0.0
    """The part of delta that pays for bounds that may fail."""
    planned: Course | None = None
    executed: Course | None = None
    updates: int | None = None
    """The steps that are in the final model, or in the last checkpoint."""
    independence: str | None = None
    """Why no record's gradient depends on another: "checked" by value, or "by construction"."""
    holdout: Literal["public", "private", "none"] = "private"
    """What the validation and test records were declared; "none" without validation records."""
    validation_looks: int = 0
    """How many times metrics on the validation records were recorded."""
    test_looks: int = 0
    """How many times the test records were scored."""
    test_holdout: Literal["public", "private"] = "private"
    diagnostics: bool = False
    """Whether training losses, norms or the like were recorded without noise."""
    pretrained: bool = False
    """Whether training started from weights that are taken as public."""
    own_module: bool = False
    """Whether a module of the user's own brought the weights that training started from."""
    earlier: tuple[EarlierRun, ...] = ()
    """The private runs whose weights training started from."""
    earlier_records: Literal["same", "disjoint"] = "same"
    """Whether they were trained on the records of this run, or on others."""
    scope: str | None = None
    """The budget scope that this run is charged to, where there is one."""
    scope_terms: ScopeTerms | None = None
    scaling_noise_multiplier: float | None = None
    """The noise on statistics that inputs were scaled by; None where none were planned."""
    scaling_statistics: str | None = None
    """Which they were, in words."""
    files: Files = Files()
    audit: str | None = None
    """What an audit of this run found: a lower bound, never a proof."""
    versions: Mapping[str, str] = field(default_factory=dict)
    config_hash: str | None = None
    ledger_head: str | None = None

    def __post_init__(self) -> None:
        if self.relation == "add_remove" and self.records is not None:
            raise PrivacyRefusal(
                "statement.records: expected none under add_remove, which keeps the number of records secret."
            )
        needed = (self.epsilon, self.delta, self.relation, self.accountant)
        if self.private and None in needed:
            raise PrivacyRefusal(
                "statement: expected epsilon, delta, relation and accountant for a private run."
            )
        if self.epsilon is not None and math.isnan(self.epsilon):
            raise PrivacyRefusal("statement.epsilon: expected a number, got NaN.")

    @property
    def failed(self) -> bool:
        """Whether the run ended by an error: nothing is promised of what it left."""
        return self.status == "failed"

    @property
    def split_by_position(self) -> bool:
        """Whether one record decided where others went, which no epsilon here covers."""
        return self.relation == "add_remove" and self.split == "position"

    @property
    def protects(self) -> bool:
        """Whether the run promises anything at all."""
        voided = self.failed or self.reproducible or self.split_by_position
        return self.private and self.certified and not voided and self.epsilon != math.inf

    def guarantee(self) -> tuple[str, str]:
        """Return the claim in two plain sentences."""
        return guarantee_sentences(
            epsilon=self.epsilon,
            delta=self.delta,
            relation=self.relation,
            unit=self.unit,
            certified=self.certified,
            private=self.private,
            reproducible=self.reproducible,
            failed=self.failed,
            split_by_position=self.split_by_position,
        )

    @property
    def status_of_claim(self) -> str:
        """What kind of claim this is."""
        if not self.private:
            return "not private"
        if self.failed:
            return "failed"
        if self.reproducible:
            return "seeded"
        if self.split_by_position:
            return "no claim"
        return "certified" if self.certified else "estimate"
