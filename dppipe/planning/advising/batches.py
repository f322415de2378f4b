"""DP-SGD at a fixed number of examples seen: what each batch size makes of a budget.

With batch size B there are T = M / B steps of noise multiplier z. The mean gradient of a step
carries noise of z / B bounds in each coordinate: the noise-to-batch ratio. Over all steps, relative
to the sum of the gradients, it is z / (B sqrt(T)): the total noise. At large z the budget fixes the
total noise whatever B is; at z of about 2 and below, noise costs more than that (Sander, Stock and
Sablayrolles 2023). So the smallest batch whose total noise is close to the least leaves the most
steps to learn in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dppipe.errors import UsageError
from dppipe.planning.questions import Answer, Question, answer
from dppipe.privacy.budget import Relation

_ROWS = 10
"""At how many batch sizes a budget is tried: powers of two, the largest that fit."""
CLOSE = 1.25
"""The total noise of the proposed batch over the least."""


@dataclass(frozen=True)
class Facts:
    """What is known beforehand; all of it is public."""

    records: int
    epsilon: float
    delta: float
    examples_seen: int
    relation: Relation = "zero_out"
    dimension: int | None = None
    """The number of trainable weights."""

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1 / self.records:
            raise UsageError(
                f"--delta: expected a number above 0 and below 1 / records = "
                f"{1 / self.records:.3g}, got {self.delta:g}. A larger one would allow giving "
                "whole records away."
            )


@dataclass(frozen=True)
class BatchRow:
    """One batch size, its noise and its certified cost."""

    batch_size: int
    steps: int
    sample_rate: float
    noise_multiplier: float
    epsilon: float
    """Certified for exactly these steps, at the budget's delta."""
    noise_to_batch: float
    """The standard deviation of the mean gradient's noise, in bounds."""
    total_noise: float
    """The same over all steps, relative to the sum of their gradients."""
    noise_norm: float | None
    """The norm of the mean gradient's noise, in bounds; None where the dimension isn't known."""

    def to_data(self) -> dict[str, Any]:
        """Return plain data."""
        from dataclasses import asdict

        return asdict(self)


def batch_rows(facts: Facts) -> list[BatchRow]:
    """Return a row for each batch size, the smallest first."""
    return [_row(facts, size) for size in _sizes(facts)]


def proposed(rows: list[BatchRow]) -> BatchRow:
    """Return the smallest batch whose total noise is close to the least of all rows."""
    least = min(row.total_noise for row in rows)
    return next(row for row in rows if row.total_noise <= CLOSE * least)


def _sizes(facts: Facts) -> list[int]:
    """Return powers of two up to all records, and that number itself where one pass allows it."""
    most = min(facts.records, facts.examples_seen)
    sizes = [2**power for power in range(most.bit_length()) if 2**power <= most]
    if most not in sizes:
        sizes.append(most)
    return sizes[-_ROWS:]


def _row(facts: Facts, size: int) -> BatchRow:
    found = _answer(facts, size)
    ratio = found.noise_multiplier / size
    norm = None if facts.dimension is None else ratio * math.sqrt(facts.dimension)
    return BatchRow(
        batch_size=size,
        steps=found.steps,
        sample_rate=found.question.sample_rate,
        noise_multiplier=found.noise_multiplier,
        epsilon=found.epsilon,
        noise_to_batch=ratio,
        total_noise=ratio / math.sqrt(found.steps),
        noise_norm=norm,
    )


def _answer(facts: Facts, size: int) -> Answer:
    """Return the least noise that keeps the budget at a batch size, with its certified epsilon."""
    from dppipe.privacy.accountants.pld import Pld
    from dppipe.sampling.poisson import Poisson

    question = Question(
        sampler=Poisson.from_data({"sample_rate": size / facts.records}),
        sample_rate=size / facts.records,
        relation=facts.relation,
        mechanism="gaussian",
        delta=facts.delta,
        noise_multiplier=None,
        steps=facts.examples_seen // size,
        epsilon=facts.epsilon,
    )
    return answer(question, Pld())
