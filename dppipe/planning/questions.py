"""Questions about privacy that need no data, as `dppipe account` answers them.

Of noise multiplier, steps and epsilon two are given, and the third is the answer. An answer that is
only an estimate is marked as such. A combination without proof or estimate is refused, and the
message names one that works.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.step_plan import charges_for
from dppipe.privacy.budget import Budget, Relation
from dppipe.privacy.calibration import affordable_steps, calibrate
from dppipe.privacy.rounding import round_up
from dppipe.privacy.support import verdict

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.events.sequences import Steps
    from dppipe.sampling.base import Sampler


@dataclass(frozen=True, kw_only=True)
class Question:
    """A schedule of equal steps with one number missing: noise multiplier, steps or epsilon."""

    sampler: Sampler
    sample_rate: float
    per_charge: int = 1
    """The steps that one charge covers: those of an epoch, for an epoch-wise sampler."""
    relation: Relation
    mechanism: str
    delta: float
    noise_multiplier: float | None
    steps: int | None
    epsilon: float | None

    def __post_init__(self) -> None:
        options = {
            "--noise-multiplier": self.noise_multiplier,
            "--steps": self.steps,
            "--epsilon": self.epsilon,
        }
        given = [option for option, value in options.items() if value is not None]
        if len(given) != 2:
            raise UsageError(
                "account: expected two of --noise-multiplier, --steps and --epsilon, got "
                f"{', '.join(given) or 'none'}. The third is worked out."
            )
        if self.noise_multiplier is None and not self.steps:
            raise UsageError(
                f"--steps: expected 1 or more where noise is worked out, got {self.steps}. "
                "Any noise will do for none."
            )

    def event(self, noise_multiplier: float) -> DpEvent:
        """Return the event of one step."""
        import dp_accounting

        mechanisms = {
            "gaussian": dp_accounting.GaussianDpEvent,
            "laplace": dp_accounting.LaplaceDpEvent,
        }
        mechanism = mechanisms[self.mechanism](noise_multiplier)
        return self.sampler.event(mechanism, rate=self.sample_rate)

    def charges(self, steps: int) -> int:
        """Return how often so many steps are charged: once for each step, or for each epoch."""
        return charges_for(steps, self.per_charge)

    def schedule(self, noise_multiplier: float, steps: int) -> Steps:
        """Return the charges of so many steps."""
        return [(self.event(noise_multiplier), self.charges(steps))]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A question with its missing number filled in, by one accountant."""

    question: Question
    accountant: str
    certified: bool
    epsilon: float
    noise_multiplier: float
    steps: int
    curve: tuple[tuple[int, float], ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return the answer as plain data; epsilon is rounded up, and null where it is unknown."""
        asked = self.question
        data: dict[str, Any] = {
            "epsilon": _printed(self.epsilon),
            "delta": asked.delta,
            "accountant": self.accountant,
            "certified": self.certified,
            "relation": asked.relation,
            "sampler": asked.sampler.kind,
            "sample_rate": asked.sample_rate,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
            "mechanism": asked.mechanism,
        }
        if self.curve:
            data["curve"] = []
            for step, epsilon in self.curve:
                data["curve"].append({"step": step, "epsilon": _printed(epsilon)})
        return data


def _printed(epsilon: float) -> float | None:
    return round_up(epsilon, 6) if math.isfinite(epsilon) else None


def answer(question: Question, accountant: Accountant, *, curve_points: int = 0) -> Answer:
    """Work out the missing number; refuse a combination that has no proof and no estimate.

    Args:
        question: Two of the three numbers.
        accountant: What bounds the cost.
        curve_points: At how many points the answer states epsilon during the run.
    """
    found = verdict(
        sampler=question.sampler.kind,
        relation=question.relation,
        accountant=accountant.kind,
        mechanism=question.mechanism,
    )
    if found.status == "refused":
        raise PrivacyRefusal(f"accountant {accountant.kind}: {found.why}. Take {found.instead}.")
    noise_multiplier, steps = _complete(question, accountant)
    schedule = question.schedule(noise_multiplier, steps)
    composed = accountant.compose(schedule, relation=question.relation)
    made = Answer(
        question=question,
        accountant=accountant.kind,
        certified=composed.certified,
        epsilon=composed.epsilon(question.delta),
        noise_multiplier=noise_multiplier,
        steps=steps,
    )
    if not curve_points or not steps:
        return made
    return replace(made, curve=_curve(made, accountant, points=curve_points))


def _complete(question: Question, accountant: Accountant) -> tuple[float, int]:
    """Return the noise multiplier and the steps, of which one may have been missing."""
    noise_multiplier = question.noise_multiplier
    steps = question.steps
    if question.epsilon is None or (noise_multiplier is not None and steps is not None):
        return noise_multiplier or 0.0, steps or 0
    budget = Budget(epsilon=question.epsilon, delta=question.delta, relation=question.relation)
    if noise_multiplier is None:
        found = calibrate(
            accountant,
            lambda z: question.schedule(z, steps or 0),
            budget=budget,
            allow_estimate=True,
        )
        return found.scale, steps or 0
    charges = affordable_steps(
        accountant, question.event(noise_multiplier), budget=budget, allow_estimate=True
    )
    return noise_multiplier, charges * question.per_charge


def _curve(made: Answer, accountant: Accountant, *, points: int) -> tuple[tuple[int, float], ...]:
    asked = made.question
    at = sorted({max(1, round(made.steps * i / points)) for i in range(1, points + 1)})
    spent = accountant.curve(
        asked.schedule(made.noise_multiplier, made.steps),
        [asked.charges(step) for step in at],
        delta=asked.delta,
        relation=asked.relation,
    )
    return tuple(zip(at, spent, strict=True))
