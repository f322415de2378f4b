"""The plan: every number that decides privacy, fixed before a record is read, and what follows from them.

A plan is a frozen value and JSON (`plan.json`). Training reads its numbers from here and from nowhere else; the ledger's
chain starts with the hash of these bytes. Read next: `privacy_plan.py`, which makes one.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from dppipe.errors import UsageError
from dppipe.planning.data_source import DataSource
from dppipe.planning.earlier import Earlier
from dppipe.privacy.budget import Relation
from dppipe.privacy.noise_split import gradient_multiplier


class NoiseRun(BaseModel):
    """Steps in a row with one noise multiplier."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    noise_multiplier: float
    steps: int


class BatchRun(BaseModel):
    """Steps in a row with one sample rate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample_rate: float
    expected_batch_size: float
    steps: int


class BoundRun(BaseModel):
    """Steps in a row with one factor on the clipper's bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    factor: float
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
    """The number of training records, or of users where these are the unit; None where the relation keeps it secret."""
    steps: int
    """The most steps the run may take."""
    ends_at: Literal["steps", "budget"]
    """Whether the run ends because its steps are done or because the next one would exceed the budget."""
    schedule: Literal["committed", "filter"] = "committed"
    """Whether the noise is fixed, or follows released values while a filter admits each step."""
    steps_per_epoch: int
    epochwise: bool = False
    """Whether an epoch is charged as a whole, on its first step."""
    sampler: str
    max_records_per_user: int | None = None
    """How many records of a user take part in a step at most, where users are drawn."""
    sample_rate: float
    expected_batch_size: float
    batches: tuple[BatchRun, ...] = ()
    """The rate and the size of each step's batch where they follow a schedule; else the two above are every step's."""
    empty_batch_probability: float | None
    largest_likely_batch: int | None
    clipping: str
    max_grad_norm: float
    """The bound; the first one, where it adapts."""
    averages: bool = False
    """Whether averages of examples are clipped: one example can turn one around, so noise is scaled to twice the bound."""
    bounds: tuple[BoundRun, ...] = ()
    """The factor on the bound at each step, where it follows a schedule."""
    statistics_std: float | None = None
    """Noise on the sum of a clipper's statistic over a batch, where it releases one beside each gradient."""
    failure_delta: float = 0.0
    """The part of delta that is set aside for a bound that may fail."""
    scaling_noise_multiplier: float | None = None
    """The noise on statistics of the records that inputs are scaled by, where some are released before the first step."""
    scaling_statistics: str | None = None
    """Which they are, in words."""
    mechanism: str
    secure: bool = False
    """Whether sums and noise are rounded to a common grid before they are added."""
    noise: tuple[NoiseRun, ...]
    """The noise of every step; what is expected, where a filter admits them one by one."""
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
    odometer: tuple[CurvePoint, ...] = ()
    """What may be claimed at a stop that followed what was released, at any step up to each of these; empty where nothing can."""
    whole_curve: dict[str, Any]
    """Epsilon of the whole run at other deltas, the accountant's own parameters, and what rounding a long schedule cost."""
    holdout: Literal["public", "private"]
    diagnostics: Literal["off", "nonprivate"]
    pretrained: bool = False
    """Whether training starts from weights in a file."""
    split: Literal["position", "hash"] | None = "position"
    """How dppipe splits the records: by position, or by a hash of each record, so that none moves another.

    None where dppipe doesn't split them. A plan without the field is of a version that knew only the first way.
    """
    data: DataSource | None = None
    """Where the records come from; None in plans of parts alone, and of earlier versions."""
    earlier: Earlier | None = None
    """The private runs that have trained these weights, where some are recognised: every epsilon includes their cost."""
    own_module: bool = False
    """Whether a module of the user's own brings the weights that training starts from."""
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

    def gradient_multiplier(self, noise_multiplier: float) -> float:
        """Give the noise multiplier of the gradient alone: larger where a statistic takes a part of the step's cost."""
        if self.statistics_std is None:
            return noise_multiplier
        return gradient_multiplier(noise_multiplier, statistics_std=self.statistics_std)

    def batch(self, step: int) -> BatchRun:
        """Give the rate and the expected size of a step's batch."""
        if not self.batches:
            return BatchRun(
                sample_rate=self.sample_rate,
                expected_batch_size=self.expected_batch_size,
                steps=self.steps,
            )
        return self.batches[bisect_left(self._last_of_batches, step)]

    def bound_factor(self, step: int) -> float:
        """Give the factor on the clipper's bounds at a step."""
        return self.bounds[bisect_left(self._last_of_bounds, step)].factor if self.bounds else 1.0

    @property
    def splits_by(self) -> Literal["position", "hash"]:
        """How dppipe splits the records; a plan that was made of parts alone is refused."""
        if self.split is None:
            raise UsageError(
                "plan.split: expected position or hash, got none. Make the plan from the spec."
            )
        return self.split

    @property
    def rounding_cost(self) -> float:
        """What rounding the noise of a long schedule down, onto fewer values, adds to epsilon at most."""
        return float(self.whole_curve.get("rounding_cost", 0.0))

    def place_in_epoch(self, step: int) -> int:
        """Give a step's place in its epoch, from 0."""
        return (step - 1) % self.steps_per_epoch

    def charges(self, step: int) -> int:
        """Give how many times a step is charged: once, or not at all where an epoch's first step has paid for it."""
        return 0 if self.epochwise and self.place_in_epoch(step) else 1

    def start_after(self, step: int) -> int:
        """Give the last step that is behind a run which goes on after `step`: what is left of a begun epoch is lost."""
        return step + (-step % self.steps_per_epoch) if self.epochwise else step

    def charged_runs(self) -> list[tuple[float, float, int]]:
        """Give what all steps are charged as: noise multiplier, sample rate, and how many charges in a row have them."""
        per_charge = self.steps_per_epoch if self.epochwise else 1
        ends = sorted({0, *self._last_steps, *self._last_of_batches})
        return [
            (
                self.noise_multiplier(end),
                self.batch(end).sample_rate,
                -(-end // per_charge) + (-start // per_charge),
            )
            for start, end in pairwise(ends)
        ]

    @cached_property
    def _last_steps(self) -> list[int]:
        return list(accumulate(run.steps for run in self.noise))

    @cached_property
    def _last_of_batches(self) -> list[int]:
        return list(accumulate(run.steps for run in self.batches))

    @cached_property
    def _last_of_bounds(self) -> list[int]:
        return list(accumulate(run.steps for run in self.bounds))

    def epsilon_after(self, step: int) -> float:
        """Give the epsilon spent after so many steps: exact at the curve's points, the next point's between them."""
        if step <= 0 and (not self.curve or self.curve[0].step > 0):
            return 0.0
        return self.curve[bisect_left(self.curve, step, key=lambda point: point.step)].epsilon

    def odometer_claim(self, step: int) -> float | None:
        """Give what may be claimed, at `delta`, of a run that was stopped at this step because of what it had released.

        Guarantee: it holds for who has decided beforehand to claim by the odometer. A run that ends within a point's steps is
        part of one that goes on to them, which is (`epsilon`, delta/K)-differentially private; over all K points deltas add up.
        """
        place = bisect_left(self.odometer, step, key=lambda point: point.step)
        return self.odometer[place].epsilon if place < len(self.odometer) else None

    def to_json(self) -> bytes:
        """Give the bytes of `plan.json`."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a plan back."""
        return cls.model_validate_json(data)
