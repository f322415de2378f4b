"""The plan: every number that decides privacy, fixed before a record is read.

A plan is a frozen value and JSON (`plan.json`). Training reads its numbers from here and from
nowhere else; the ledger's chain starts with the hash of these bytes. Read next: `privacy_plan.py`,
which makes one.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from dppipe.errors import UsageError
from dppipe.planning.data_source import DataSource
from dppipe.planning.earlier.runs import Earlier
from dppipe.planning.step_runs import BatchRun, BoundRun, CurvePoint, NoiseRun
from dppipe.privacy.budget import Relation
from dppipe.privacy.noise_split import gradient_multiplier

__all__ = ["BatchRun", "BoundRun", "CurvePoint", "NoiseRun", "Plan", "charges_for"]


def charges_for(steps: int, per_charge: int) -> int:
    """Return how many charges cover so many steps, if each covers `per_charge` of them."""
    whole, rest = divmod(steps, per_charge)
    return whole + 1 if rest else whole


class Plan(BaseModel):
    """The numbers that a run has committed to.

    Guarantees:
    - Where `certified`, `epsilon_after(step)` is an upper bound on what the first `step` steps cost
      at `delta` under `relation`.
    - It never exceeds `budget_epsilon` at any step up to `steps`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    private: bool
    records: int | None
    """The number of training records, or of users; None where the relation keeps it secret."""
    steps: int
    """The most steps the run may take."""
    ends_at: Literal["steps", "budget"]
    """Why the run ends: its steps are done, or the next one would exceed the budget."""
    schedule: Literal["committed", "filter"] = "committed"
    """Whether the noise is fixed, or follows released values while a filter admits each step."""
    steps_per_epoch: int
    epochwise: bool = False
    """Whether an epoch is charged as a whole, on its first step."""
    sampler: str
    max_records_per_user: int | None = None
    """How many records of a user are used in a step at most, where users are drawn."""
    sample_rate: float
    expected_batch_size: float
    batches: tuple[BatchRun, ...] = ()
    """The rate and size of each step's batch, where they follow a schedule.

    Without a schedule, the two fields above hold for every step.
    """
    empty_batch_probability: float | None
    largest_likely_batch: int | None
    clipping: str
    max_grad_norm: float
    """The clipping bound; the first one, where it adapts."""
    averages: bool = False
    """Whether averages of examples are clipped.

    One example can turn an average around, so noise is scaled to twice the bound.
    """
    bounds: tuple[BoundRun, ...] = ()
    """The factor on the bound at each step, where it follows a schedule."""
    statistics_std: float | None = None
    """The noise on a batch's sum of the clipper's statistic, where the clipper releases one."""
    failure_delta: float = 0.0
    """The part of delta that is set aside for a bound that may fail."""
    scaling_noise_multiplier: float | None = None
    """The noise on statistics that inputs are scaled by, where they are released at the start."""
    scaling_statistics: str | None = None
    """The name of these statistics."""
    mechanism: str
    secure: bool = False
    """Whether sums and noise are rounded to a common grid before they are added."""
    noise: tuple[NoiseRun, ...]
    """The noise of every step; only the expected noise, where a filter admits each step."""
    relation: Relation | None
    unit: str
    scope: str | None
    """The shared budget that the run is also charged to."""
    budget_epsilon: float | None
    delta: float | None
    accountant: str | None
    certified: bool
    epsilon: float | None
    """The cost of all steps together."""
    curve: tuple[CurvePoint, ...]
    odometer: tuple[CurvePoint, ...] = ()
    """The claims at a stop that depended on released values, up to each of these steps.

    It is empty where nothing may be claimed.
    """
    whole_curve: dict[str, Any]
    """The epsilon of the whole run at other deltas, and details of the accountant's computation."""
    holdout: Literal["public", "private"]
    diagnostics: Literal["off", "nonprivate"]
    pretrained: bool = False
    """Whether training starts from weights in a file."""
    split: Literal["position", "hash"] | None = "position"
    """How dppipe splits the records: by position, or by a hash of each record.

    With hashes no record changes where another one goes. None where dppipe doesn't split the
    records. Plans of versions without this field split by position.
    """
    data: DataSource | None = None
    """Where the records come from; None in plans of parts alone, and of earlier versions."""
    earlier: Earlier | None = None
    """The private runs that trained the starting weights; every epsilon includes their cost."""
    own_module: bool = False
    """Whether the weights that training starts from come from a module of the user's own."""
    reproducible: bool
    spec_hash: str
    """The hash of the whole effective spec."""
    committed_hash: str
    """The hash of its privacy-relevant part: all but the optimizer and how training is run."""
    plugins: dict[str, str]
    """The hash of each plugin file that was used."""

    def noise_multiplier(self, step: int) -> float:
        """Return the noise multiplier of a step, counted from 1."""
        return self.noise[bisect_left(self._last_steps, step)].noise_multiplier

    def gradient_multiplier(self, noise_multiplier: float) -> float:
        """Return the noise multiplier of the gradient alone.

        It is larger where a released statistic takes a part of the step's cost.
        """
        if self.statistics_std is None:
            return noise_multiplier
        return gradient_multiplier(noise_multiplier, statistics_std=self.statistics_std)

    def batch(self, step: int) -> BatchRun:
        """Return the rate and the expected size of a step's batch."""
        if not self.batches:
            return BatchRun(
                sample_rate=self.sample_rate,
                expected_batch_size=self.expected_batch_size,
                steps=self.steps,
            )
        return self.batches[bisect_left(self._last_of_batches, step)]

    def bound_factor(self, step: int) -> float:
        """Return the factor on the clipper's bounds at a step."""
        if not self.bounds:
            return 1.0
        return self.bounds[bisect_left(self._last_of_bounds, step)].factor

    @property
    def splits_by(self) -> Literal["position", "hash"]:
        """How dppipe splits the records; refused for a plan of parts alone."""
        if self.split is None:
            raise UsageError(
                "plan.split: expected position or hash, got none. Make the plan from the spec."
            )
        return self.split

    @property
    def rounding_cost(self) -> float:
        """How much it adds to epsilon at most that a long schedule's noise is rounded down."""
        return float(self.whole_curve.get("rounding_cost", 0.0))

    def place_in_epoch(self, step: int) -> int:
        """Return a step's place in its epoch, from 0."""
        return (step - 1) % self.steps_per_epoch

    def charges(self, step: int) -> int:
        """Return how often a step is charged: 1, or 0 where its epoch's first step has paid."""
        is_paid = self.epochwise and self.place_in_epoch(step) > 0
        return 0 if is_paid else 1

    def start_after(self, step: int) -> int:
        """Return the step after which a run goes on that was interrupted after `step`.

        The rest of an epoch that has begun is lost.
        """
        if not self.epochwise:
            return step
        return step + (-step % self.steps_per_epoch)

    def charged_runs(self) -> list[tuple[float, float, int]]:
        """Return the charges of all steps: noise multiplier, sample rate, and their number."""
        per_charge = self.steps_per_epoch if self.epochwise else 1
        ends = sorted({0, *self._last_steps, *self._last_of_batches})
        runs = []
        for start, end in pairwise(ends):
            rate = self.batch(end).sample_rate
            count = charges_for(end, per_charge) - charges_for(start, per_charge)
            runs.append((self.noise_multiplier(end), rate, count))
        return runs

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
        """Return the epsilon spent after so many steps.

        It is exact at the curve's points; between them it is the next point's.
        """
        starts_at_zero = bool(self.curve) and self.curve[0].step == 0
        if step <= 0 and not starts_at_zero:
            return 0.0
        return self.curve[bisect_left(self.curve, step, key=lambda point: point.step)].epsilon

    def odometer_claim(self, step: int) -> float | None:
        """Return the epsilon, at `delta`, of a run that was stopped because of released values.

        Guarantee: it is valid only if you chose the odometer claim before the run. A run that ends
        within a point's steps is part of one that goes on to them, which is (`epsilon`, delta/K)-
        differentially private; over all K points the deltas add up to `delta`.
        """
        place = bisect_left(self.odometer, step, key=lambda point: point.step)
        return self.odometer[place].epsilon if place < len(self.odometer) else None

    def to_json(self) -> bytes:
        """Return the bytes of `plan.json`."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a plan back."""
        return cls.model_validate_json(data)
