"""What an audit of one run fixes before the first charge: `audit/plan.json`.

How many canaries there are, how many are guessed "in" and "out", by which score, and at which
level. Each of them chosen after the scores were seen would cost the bound its confidence.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dppipe.errors import UsageError
from dppipe.runs.directory import RunDirectory, write_whole

Kind = Literal["reserved", "inputs"]
LEVEL = 0.05
"""The chance with which a correct run may be rejected."""
RESERVED = 1000
"""The default number of reserved canaries."""
MOST_INPUTS = 500
"""The default number of input canaries: so many, or a twentieth of the records."""


class AuditPlan(BaseModel):
    """The plan of an audit of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    canaries: Kind
    number: int = Field(ge=1)
    guessed_in: int = Field(ge=0)
    """How many canaries with the highest scores are guessed to be in the training."""
    guessed_out: int = Field(ge=0)
    """How many with the lowest scores are guessed to be out of it."""
    level: float = Field(gt=0, lt=0.5)
    delta: float = Field(ge=0, lt=1)
    relation: str
    made_up: bool
    """Whether the run trains on made-up records."""
    commitment: str
    """The SHA-256 of the coins and a secret salt: the coins can't change later."""

    @model_validator(mode="after")
    def _guesses_fit(self) -> AuditPlan:
        if not 1 <= self.guessed_in + self.guessed_out <= self.number:
            raise ValueError("expected from one guess to as many as there are canaries")
        return self

    @property
    def guesses(self) -> int:
        """How many guesses are made."""
        return self.guessed_in + self.guessed_out

    def save(self, run: RunDirectory) -> None:
        """Write the plan, durably."""
        write_whole(run.audit_plan, self.model_dump_json(indent=2).encode() + b"\n")


def guesses_of(number: int) -> int:
    """Return how many canaries are guessed in, and how many out, unless stated otherwise."""
    return max(1, min(number // 2, round(1.5 * math.sqrt(number))))


def default_number(kind: Kind, *, records: int) -> int:
    """Return the number of canaries unless stated otherwise."""
    return RESERVED if kind == "reserved" else max(1, min(MOST_INPUTS, records // 20))


def read_audit_plan(run: RunDirectory) -> AuditPlan:
    """Read the plan of a run's audit."""
    try:
        return AuditPlan.model_validate_json(run.audit_plan.read_bytes())
    except (OSError, ValidationError):
        raise UsageError(
            f"{run.audit_plan}: expected the plan of an audit, got something else. Put the one "
            "back that the run began with."
        ) from None
