"""Private runs whose weights a run starts from: their costs are part of its claim.

The plan holds an `Earlier` with every event of the earlier runs, so that the plan, the ledger's
epsilons, `dppipe ledger verify` and the statement all count the same. Read next: `recognition.py`,
which finds the runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from dppipe.errors import PrivacyRefusal
from dppipe.planning.frozen_data import FrozenData
from dppipe.privacy.accountants.base import Accountant, Composition
from dppipe.privacy.budget import Budget, Relation
from dppipe.privacy.events.plain import event_from_data
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.failures import with_failure
from dppipe.privacy.parallel import with_disjoint
from dppipe.privacy.preludes import with_prelude

Records = Literal["same", "disjoint"]
"""Whether weights were trained on the records of the run that starts from them, or on others."""


class ChargedEvent(FrozenData):
    """An event and how often it was charged."""

    event: dict[str, Any]
    count: int


class EarlierRun(FrozenData):
    """What one private run has charged, by its own ledger."""

    run: str
    """The run's id: copies of a run directory share it."""
    run_dir: str
    ledger_head: str
    relation: Relation
    unit: str
    scope: str | None = None
    failure_delta: float = 0.0
    reproducible: bool = False
    """Whether its noise had a public seed, so that it protects nobody."""
    filtered: bool = False
    """Whether its noise followed released values: only its own filter bounds its cost."""
    data_hash: str | None = None
    """The SHA-256 of the data block of its spec, where it has one."""
    events: tuple[ChargedEvent, ...]

    @property
    def charged(self) -> int:
        """The number of its charges."""
        return sum(charge.count for charge in self.events)


class Earlier(FrozenData):
    """All private runs that have trained the weights which a run starts from."""

    records: Records
    runs: tuple[EarlierRun, ...]

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the runs."""
        return frozenset(run.run for run in self.runs)

    @property
    def names(self) -> str:
        """The runs' directories, for messages."""
        return ", ".join(run.run_dir for run in self.runs)

    @property
    def charged(self) -> int:
        """The number of charges of all runs."""
        return sum(run.charged for run in self.runs)

    @property
    def failure_delta(self) -> float:
        """The part of delta that the runs have set aside for bounds that may fail."""
        return sum(run.failure_delta for run in self.runs)

    def steps(self) -> Steps:
        """Return every event of every run."""
        steps = []
        for run in self.runs:
            for charge in run.events:
                steps.append((event_from_data(charge.event), charge.count))
        return steps

    def composition(self, accountant: Accountant, *, relation: Relation) -> Composition:
        """Bound what the runs cost together; refuse events that the accountant can't bound."""
        bounding = with_failure(accountant, self.failure_delta)
        try:
            return bounding.compose(self.steps(), relation=relation)
        except PrivacyRefusal as error:
            raise PrivacyRefusal(
                f"accountant: expected one that can bound {self.names}, whose weights this run "
                f"starts from, got {accountant.kind}: {error}"
            ) from error


def merged(runs: Iterable[EarlierRun]) -> tuple[EarlierRun, ...]:
    """Return each run once, with the most charges that it is known to have."""
    known: dict[str, EarlierRun] = {}
    for run in runs:
        if run.run not in known or known[run.run].charged < run.charged:
            known[run.run] = run
    return tuple(known.values())


def with_earlier(
    accountant: Accountant,
    earlier: Earlier | None,
    *,
    before: Steps,
    failure: float,
    relation: Relation,
) -> Accountant:
    """Return an accountant whose every bound includes the earlier runs.

    Guarantees:
    - A bound for some steps holds for these steps, the events `before` them and all earlier runs
      together, with `failure` set aside from delta.
    - If the records are the same, all costs are composed; if they are disjoint, the larger counts.

    Args:
        accountant: What bounds the run by itself.
        earlier: The earlier runs, if any.
        before: What this run itself releases before its first step.
        failure: The probability that one of this run's bounds fails.
        relation: What neighbouring datasets differ in.
    """
    if earlier is None:
        return with_failure(with_prelude(accountant, before), failure)
    if earlier.records == "same":
        events = [*earlier.steps(), *before]
        return with_failure(with_prelude(accountant, events), failure + earlier.failure_delta)
    own = with_failure(with_prelude(accountant, before), failure)
    return with_disjoint(own, earlier.composition(accountant, relation=relation))


def refuse_earlier(
    earlier: Earlier, budget: Budget, accountant: Accountant, *, unit: str, adaptive: bool
) -> float:
    """Refuse earlier runs that no bound covers together with this one; return their own cost."""
    for run in earlier.runs:
        _refuse_term("relation", budget.relation, run.relation, run=run)
        _refuse_term("unit", unit, run.unit, run=run)
        if earlier.records == "same" and budget.scope is not None and run.scope != budget.scope:
            raise PrivacyRefusal(
                f"budget.scope: expected the weights of {run.run_dir} to be charged to "
                f"{budget.scope!r} too, got {run.scope or 'no scope'}. The shared budget would "
                "miss their cost: leave the scope out, or start from other weights."
            )
    if adaptive:
        raise PrivacyRefusal(
            "noise: expected a schedule that is fixed in the plan, as the run starts from the "
            f"weights of {earlier.names}; got one that follows released values, whose filter "
            "can't count them. Take another schedule, or start from other weights."
        )
    return earlier.composition(accountant, relation=budget.relation).epsilon(budget.delta)


def _refuse_term(name: str, own: str, earlier: str, *, run: EarlierRun) -> None:
    if own != earlier:
        raise PrivacyRefusal(
            f"budget.{name}: expected {earlier}, as the weights of {run.run_dir} were trained "
            f"under, got {own}. Costs under different ones don't add up: set {earlier}, or start "
            "from other weights."
        )
