"""Which learners did best where a task was most like this one, and what their settings cost here.

Scores come from the table that dppipe ships (`dppipe/learners/measured.json`), which
`benchmarks/learners_table.py` made. Each row's setting is planned for the user's own number of
records, epsilon and delta, on made-up data of that shape that is never made.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from dppipe.errors import PrivacyRefusal, SpecError, UsageError
from dppipe.planning.advising.batches import Facts
from dppipe.spec.load import spec_from_text

_FAR = 10
"""How many times as many weights as any measured task has are too many to compare."""
_CLASSES = {"adult": 2, "adult, age": 0, "digits": 10, "mnist": 10, "fashion_mnist": 10}


@dataclass(frozen=True)
class LearnerRow:
    """One learner on the most similar measured task."""

    learner: str
    score: str
    mean: float
    spread: float
    epsilon: float | None
    """Certified for this setting at the user's records and delta; None where it can't be planned
    here."""
    steps: int | None
    """Of DP-SGD, which the setting takes with all records in each."""
    setting: str
    note: str = ""


@dataclass(frozen=True)
class LearnerAdvice:
    """The learners of one measured task, the best first."""

    task: str
    records: int
    weights: int
    epsilon: float
    """The budget at which the scores were measured, the nearest to the user's."""
    rows: tuple[LearnerRow, ...]
    far: bool
    """Whether no measured task is like the user's: then the scores say little."""

    @property
    def best(self) -> LearnerRow:
        """The learner with the highest mean."""
        return self.rows[0]

    def to_data(self) -> dict[str, Any]:
        """Return plain data."""
        from dataclasses import asdict

        return asdict(self)


def learner_advice(facts: Facts) -> LearnerAdvice:
    """Return the learners of the measured task that is nearest in records and in weights."""
    measured = _measured()
    task = min({row["task"] for row in measured}, key=lambda name: _distance(name, facts, measured))
    near = [row for row in measured if row["task"] == task]
    epsilon = min({row["epsilon"] for row in near}, key=lambda e: abs(math.log(e / facts.epsilon)))
    kept = [row for row in near if row["epsilon"] == epsilon]
    rows = [_row(row, facts) for row in sorted(kept, key=lambda row: -row["mean"])]
    largest = max(row["weights"] for row in measured)
    far = facts.dimension is not None and facts.dimension > _FAR * largest
    return LearnerAdvice(
        task, near[0]["records"], near[0]["weights"], epsilon, rows=tuple(rows), far=far
    )


def _measured() -> list[dict[str, Any]]:
    text = files("dppipe").joinpath("learners/measured.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


def _distance(task: str, facts: Facts, measured: list[dict[str, Any]]) -> tuple[float, str]:
    """Return how far a task is in factors of records and weights; ties go by name."""
    row = next(row for row in measured if row["task"] == task)
    far = abs(math.log(row["records"] / facts.records))
    if facts.dimension is not None:
        far += abs(math.log(row["weights"] / facts.dimension))
    return far, task


def _row(row: dict[str, Any], facts: Facts) -> LearnerRow:
    """Return a measured row with its cost on the user's numbers."""
    from dppipe.planning.privacy_plan import make_plan
    from dppipe.planning.step_plan import StepPlan

    epsilon: float | None = None
    steps: int | None = None
    note = ""
    try:
        plan = make_plan(spec_from_text(_spec_text(row, facts), name="advice"))
        epsilon = plan.epsilon
        steps = plan.steps if isinstance(plan, StepPlan) else None
    except (SpecError, UsageError, PrivacyRefusal):
        note = "can't be planned"
    if steps is not None and steps * facts.records > facts.examples_seen:
        note = "sees more examples"
    return LearnerRow(
        learner=row["learner"],
        score=row["score"],
        mean=row["mean"],
        spread=row["spread"],
        epsilon=epsilon,
        steps=steps,
        setting=row["setting"],
        note=note,
    )


def _spec_text(row: dict[str, Any], facts: Facts) -> str:
    """Return a spec of the setting for made-up data with the user's number of records."""
    classes = _CLASSES[row["task"]]
    outputs = classes if classes > 2 else 1
    weights = row["weights"] if facts.dimension is None else facts.dimension
    features = max(1, weights // outputs - 1)
    kind = f"classes: {classes}" if classes else "task: regression"
    shape = f"features: {features}, {kind}"
    setting = row["setting"].replace("PUBLIC", f"{{kind: synthetic, size: 5000, {shape}}}")
    setting = ", ".join(part for part in setting.split(", ") if "RIDGE" not in part)
    if setting.count("{") > setting.count("}"):
        setting += "}"
    return (
        "version: 1\nname: advice\n"
        f"data: {{kind: synthetic, size: {facts.records}, {shape}, "
        "split: {train: 1.0, val: 0.0, test: 0.0}}\n"
        f"budget: {{epsilon: {facts.epsilon}, delta: {facts.delta}, "
        f"relation: {facts.relation}}}\n{setting}\n"
    )
