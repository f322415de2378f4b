"""The plan: every number that decides privacy, fixed before a record is read.

A plan is a frozen value and JSON (`plan.json`). Training reads its numbers from here and from
nowhere else; the ledger's chain starts with the hash of these bytes. Read next: `step_plan.py`, the
plan of a run that takes steps, and `privacy_plan.py`, which makes one.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from dppipe.errors import UsageError
from dppipe.planning.data_source import DataSource
from dppipe.planning.earlier.runs import Earlier
from dppipe.planning.planned_release import PlannedRelease
from dppipe.planning.step_runs import CurvePoint
from dppipe.privacy.budget import Relation
from dppipe.privacy.tradeoff.attack_limits import AttackLimits

__all__ = ["CurvePoint", "Plan"]


class Plan(BaseModel):
    """The numbers that a run has committed to, whatever its learner.

    Guarantees:
    - Where `certified`, `epsilon_after(done)` is an upper bound on what the first `done` steps (or
      releases, in a run without steps) cost at `delta` under `relation`.
    - It never exceeds `budget_epsilon`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    learner: str = "dp_sgd"
    private: bool
    records: int | None
    """The number of training records, or of users; None where the relation keeps it secret."""
    releases: tuple[PlannedRelease, ...] = ()
    """The releases that aren't steps, in order; those of a run with steps come before them."""
    steps: int = 0
    """The most steps the run may take; 0 for a learner that takes none."""
    ends_at: Literal["steps", "budget"] = "steps"
    """Why the run ends: all is done that was planned, or the next step would exceed the budget."""
    schedule: Literal["committed", "filter"] = "committed"
    """Whether the noise is fixed, or follows released values while a filter admits each step."""
    max_records_per_user: int | None = None
    """How many records of a user are used in a step at most, where users are drawn."""
    failure_delta: float = 0.0
    """The part of delta that is set aside for a bound that may fail."""
    secure: bool = False
    """Whether sums and noise are rounded to a common grid before they are added."""
    relation: Relation | None
    unit: str
    scope: str | None
    """The shared budget that the run is also charged to."""
    budget_epsilon: float | None
    delta: float | None
    accountant: str | None
    certified: bool
    epsilon: float | None
    """The cost of all releases together."""
    curve: tuple[CurvePoint, ...]
    odometer: tuple[CurvePoint, ...] = ()
    """The claims at a stop that depended on released values, up to each of these steps.

    It is empty where nothing may be claimed.
    """
    whole_curve: dict[str, Any]
    """The epsilon of the whole run at other deltas, and details of the accountant's computation."""
    attack_limits: AttackLimits | None = None
    """What any attacker can reach with all releases; None without a budget, and in plans of earlier
    versions. Where `certified`, every number is an upper bound."""
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

    def epsilon_after(self, done: int) -> float:
        """Return the epsilon spent after so many steps, or releases in a run without steps.

        It is exact at the curve's points; between them it is the next point's.
        """
        starts_at_zero = bool(self.curve) and self.curve[0].step == 0
        if done <= 0 and not starts_at_zero:
            return 0.0
        return self.curve[bisect_left(self.curve, done, key=lambda point: point.step)].epsilon

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
