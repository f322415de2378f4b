"""Made-up records for learners, and fits of them without noise that show what would be noised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from dppipe.data.reading.users import with_users
from dppipe.errors import DppipeError
from dppipe.learners.base import Learner
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.job import Job
from dppipe.learners.plain_gate import PlainGate
from dppipe.learners.plugin_gate import PluginGate
from dppipe.learners.records.training_records import TrainingRecords, Unit
from dppipe.planning.plan import Plan
from dppipe.planning.release_plan import LearnerParts, plan_releases
from dppipe.planning.stated import DEFAULT_FACTS
from dppipe.plugin_kit.checks.table import Fault
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.release import PublicFacts, Release, is_built_in

RECORDS = 24
USERS = 8


def _facts(shape: tuple[int, ...], outputs: int, task: str, *, unit: str = "example") -> Any:
    records = USERS if unit == "user" else RECORDS
    return PublicFacts(
        records=records,
        unit=unit,
        relation="zero_out",
        input_shape=shape,
        outputs=outputs,
        task=task,
    )


CASES: tuple[PublicFacts, ...] = (
    _facts((4,), 3, "multiclass"),
    _facts((3,), 1, "binary"),
    _facts((3,), 1, "regression"),
    _facts((1, 4, 4), 3, "multiclass"),
    _facts((4,), 3, "multiclass", unit="user"),
    _facts((3,), 1, "regression", unit="user"),
)
"""What learners are tried with: tasks, shapes and units."""


class MadeUpRecords(Dataset[tuple[Tensor, Tensor]]):
    """Made-up records, of which one may be replaced, or raise."""

    def __init__(self, facts: PublicFacts) -> None:
        generator = torch.Generator().manual_seed(7)
        self.inputs = torch.randn(RECORDS, *facts.input_shape, generator=generator)
        if facts.task == "multiclass":
            self.targets = torch.arange(RECORDS) % facts.outputs
        elif facts.task == "binary":
            self.targets = (torch.arange(RECORDS) % 2).float()
        else:
            self.targets = torch.randn(RECORDS, facts.outputs, generator=generator)
        self.change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
        """What becomes of the first unit's records."""
        self.owners = torch.arange(RECORDS) % USERS if facts.unit == "user" else None
        if self.owners is not None:
            with_users(self, self.owners.numpy())

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        one, target = self.inputs[index].clone(), self.targets[index].clone()
        owner = index if self.owners is None else int(self.owners[index])
        return self.change(one, target) if self.change is not None and owner == 0 else (one, target)

    def made_up_unit(self) -> Unit:
        """Return another unit, for the rehearsal."""
        return Unit(self.inputs[:2] + 0.5, self.targets[:2].clone())


@dataclass
class Fitted:
    """What a fit on made-up records has asked for and returned."""

    plan: Plan
    module: nn.Module
    trained: object = None
    used: list[tuple[Release, Bounded]] = field(default_factory=list)
    """Each release, with what would have been noised."""
    outputs: list[Tensor] = field(default_factory=list)
    read_outside: bool = False


class RecordingGate(PlainGate):
    """A gate without noise that keeps what it would have noised.

    With `replayed` it returns those values, so that two fits differ in one release at a time.
    """

    def __init__(self, fitted: Fitted, replayed: Sequence[Tensor] | None) -> None:
        super().__init__(fitted.plan)
        self._fitted = fitted
        self._replayed = replayed

    def add_noise(self, release: Release, compute: Callable[[], Bounded]) -> Tensor:
        """Keep the value, and return it or the one to be replayed."""
        self._upcoming.charge(release)
        bounded = compute()
        return self._note(release, bounded, bounded.value / bounded.over)

    def select(self, release: Release, scores: Callable[[], Bounded]) -> int:
        """Keep the scores, and return the best candidate or the one to be replayed."""
        self._upcoming.charge(release)
        bounded = scores()
        return int(self._note(release, bounded, torch.argmax(bounded.value)))

    def _note(self, release: Release, bounded: Bounded, output: Tensor) -> Tensor:
        number = len(self._fitted.used)
        self._fitted.used.append((release, bounded))
        if self._replayed is not None and number < len(self._replayed):
            output = self._replayed[number]
        self._fitted.outputs.append(output.clone())
        return output.clone()


def has_own_fit(learner: Learner) -> bool:
    """Return whether a learner's fit can be tried: it is a plugin's, not bound to a Trainer."""
    return not is_built_in(learner) and "train" not in learner.takes


def accepted_cases(learner: Learner) -> list[PublicFacts]:
    """Return the cases that a learner doesn't refuse; a learner that refuses all has a fault."""
    accepted = []
    why = ""
    for facts in CASES:
        try:
            learner.releases(facts, scale=1.0)
            untrained(learner, facts)
            accepted.append(facts)
        except DppipeError as error:
            why = f" The last one says: {error}"
    if not accepted:
        raise Fault(f"expected a learner for one kind of records at least, got none.{why}")
    return accepted


def untrained(learner: Learner, facts: PublicFacts) -> nn.Module:
    """Return the module that a learner trains."""
    if "model" in learner.takes:
        return nn.Sequential(
            nn.Flatten(), nn.Linear(math.prod(facts.input_shape), facts.outputs)
        ).double()
    module = learner.module(facts)
    if not isinstance(module, nn.Module):
        raise Fault(f"expected module(facts) to return a module, got {type(module).__name__}.")
    return module


def plan_without_budget(learner: Learner, facts: PublicFacts) -> Plan:
    """Return the plan of a learner's releases, at the scale that is set or at 1."""
    parts = LearnerParts(learner, Rdp(), None, facts.unit)
    return plan_releases(parts, facts, name="check", learner=learner.kind, **DEFAULT_FACTS)


def fit_recorded(
    learner: Learner,
    facts: PublicFacts,
    *,
    records: MadeUpRecords | None = None,
    replayed: Sequence[Tensor] | None = None,
) -> Fitted:
    """Fit a learner on made-up records, without noise."""
    data = records or MadeUpRecords(facts)
    torch.manual_seed(0)
    fitted = Fitted(plan_without_budget(learner, facts), untrained(learner, facts))

    def refuse() -> bool:
        fitted.read_outside = True
        return False

    by_users = facts.unit == "user"
    inside = TrainingRecords(data, by_users=by_users, may_read=lambda: True)
    outside = TrainingRecords(data, by_users=by_users, may_read=refuse)
    gate = PluginGate(RecordingGate(fitted, replayed), inside, data.made_up_unit(), fitted.module)
    fitted.trained = learner.fit(Job(facts, fitted.module, outside, Path.cwd()), gate)
    return fitted
