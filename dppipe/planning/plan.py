"""The plan: every number that decides privacy, fixed before a record is read, and what follows from them.

A plan is a frozen value and JSON (`plan.json`). Training reads its numbers from here and from nowhere else; the ledger's
chain starts with the hash of these bytes. Read next: `privacy_plan.py`, which makes one.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from dppipe.privacy.budget import Relation
from dppipe.privacy.noise_split import gradient_multiplier
from dppipe.privacy.statement import guarantee_sentences


class NoiseRun(BaseModel):
    """Steps in a row with one noise multiplier."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    noise_multiplier: float
    steps: int


class CurvePoint(BaseModel):
    """What is spent after so many steps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int
    epsilon: float


class Plan(BaseModel):
    """What a run has committed to.

    Guarantee: `epsilon_after(step)` is a certified upper bound on what the first `step` steps cost at `delta` under
    `relation`, where `certified`; it never exceeds `budget_epsilon` at any step up to `steps`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    private: bool
    records: int | None
    """The number of training records; None where the relation keeps it secret."""
    steps: int
    """The most steps the run may take."""
    ends_at: Literal["steps", "budget"]
    """Whether the run ends because its steps are done or because the next one would exceed the budget."""
    steps_per_epoch: int
    sampler: str
    sample_rate: float
    expected_batch_size: float
    empty_batch_probability: float | None
    largest_likely_batch: int | None
    clipping: str
    max_grad_norm: float
    """The bound; the first one, where it adapts."""
    statistics_std: float | None = None
    """Noise on the sum of a clipper's statistic over a batch, where it releases one beside each gradient."""
    failure_delta: float = 0.0
    """The part of delta that is set aside for a bound that may fail."""
    mechanism: str
    noise: tuple[NoiseRun, ...]
    relation: Relation | None
    unit: str
    scope: str | None
    """The shared budget that the run is charged to, too."""
    budget_epsilon: float | None
    delta: float | None
    accountant: str | None
    certified: bool
    epsilon: float | None
    """What all the steps cost together."""
    curve: tuple[CurvePoint, ...]
    whole_curve: dict[str, Any]
    """Epsilon of the whole run at other deltas, and the accountant's own parameters."""
    holdout: Literal["public", "private"]
    diagnostics: Literal["off", "nonprivate"]
    reproducible: bool
    spec_hash: str
    """The hash of the whole effective spec."""
    committed_hash: str
    """The hash of what could change privacy in it: all but the optimizer and how training is run."""
    plugins: dict[str, str]
    """The hash of each plugin file that was used."""

    def noise_multiplier(self, step: int) -> float:
        """Give the noise multiplier of a step, counted from 1."""
        return self.noise[bisect_left(self._last_steps, step)].noise_multiplier

    def gradient_multiplier(self, step: int) -> float:
        """Give the noise multiplier of a step's gradient alone: larger where a statistic takes a part of the step's cost."""
        noise_multiplier = self.noise_multiplier(step)
        if self.statistics_std is None:
            return noise_multiplier
        return gradient_multiplier(noise_multiplier, statistics_std=self.statistics_std)

    @cached_property
    def _last_steps(self) -> list[int]:
        return list(accumulate(run.steps for run in self.noise))

    def epsilon_after(self, step: int) -> float:
        """Give the epsilon spent after so many steps: exact at the curve's points, the next point's between them."""
        if step <= 0:
            return 0.0
        return self.curve[bisect_left(self.curve, step, key=lambda point: point.step)].epsilon

    def to_json(self) -> bytes:
        """Give the bytes of `plan.json`."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a plan back."""
        return cls.model_validate_json(data)

    def guarantee(self) -> tuple[str, str]:
        """Say what is promised in two plain sentences."""
        return guarantee_sentences(
            epsilon=self.epsilon,
            delta=self.delta,
            relation=self.relation,
            unit=self.unit,
            certified=self.certified,
            private=self.private,
            reproducible=self.reproducible,
        )
