"""The budget of a run: the most it may cost, and what that cost is measured against."""

from __future__ import annotations

from typing import Literal

from dppipe.component import Field, Options

Relation = Literal["zero_out", "add_remove", "replace_one"]
Unit = Literal["example", "user"]


class Budget(Options):
    """The most that a run may cost one unit.

    Example:
        >>> from dppipe import Budget
        >>> budget = Budget(epsilon=3.0, delta=1e-5)
        >>> budget.relation, budget.unit
        ('zero_out', 'example')
    """

    epsilon: float = Field(gt=0, description="The most epsilon the run may cost.")
    delta: float = Field(
        gt=0,
        lt=1,
        description="The delta that epsilon is stated at; refused at or above 1/records.",
    )
    relation: Relation = Field("zero_out", description="What neighbouring data sets differ in.")
    unit: Unit = Field(
        "example", description="Whose privacy is protected: one example, or one user."
    )
    scope: str | None = Field(
        None, description="The shared budget that this run is charged to, too."
    )
