"""What is asked about a single mechanism, and what an answer holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dppipe.cli.printing.wrapping import table, wrapped
from dppipe.privacy.budget import Relation
from dppipe.privacy.printing import shown, shown_delta
from dppipe.privacy.rounding import round_up

DIGITS = 6
"""The significant digits of numbers in `--json`."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a question, checked; None where one wasn't given."""

    mechanism: str
    relation: Relation | None = None
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None
    truth_probability: float | None = None
    buckets: int = 2
    records: int | None = None
    steps: int | None = None
    scores: tuple[float, ...] = ()
    group: int | None = None
    parts: tuple[float, ...] = ()
    sample_rate: float | None = None
    select_best: float | None = None
    """How many runs there are on average, of which the best is released."""
    repetitions: str = "truncated_negative_binomial"
    shape: float | None = None


@dataclass(frozen=True, kw_only=True)
class Single:
    """The answer: one sentence, the facts behind it, plain data, and a picture."""

    sentence: str
    facts: dict[str, str]
    data: dict[str, Any]
    draw: Callable[[Any], None]
    """Draws the picture into a figure."""
    notes: tuple[str, ...] = field(default=())
    """What the answer assumes."""

    def text(self) -> str:
        """Lay out the answer for a terminal."""
        parts = [wrapped(self.sentence), table(self.facts)]
        parts += map(wrapped, self.notes)
        return "\n\n".join(parts)


def at_delta(epsilon: float, delta: float) -> str:
    """Write a pair of epsilon and delta, rounded up."""
    return f"epsilon {shown(epsilon)} at delta {shown_delta(delta)}"


def number(value: float) -> float | None:
    """Round a number up, as `--json` shows it; null where none is known."""
    return round_up(value, DIGITS) if math.isfinite(value) else None


def at_most(value: float) -> str:
    """Write a noise multiplier for people, rounded up."""
    return f"{round_up(value, 4):g}"
