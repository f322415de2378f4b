"""Judging inverted classes: is it the class, and is it nearer to a member than to anybody else?

A good picture of a class is no violation: anybody who has a few records of the class can draw one.
So each result stands beside that drawing, and beside the input that the search started from. Only
a result that lies nearer to members than to as many others says something of a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import torch
from scipy import stats
from torch import Tensor

from dppipe.audit.attacks.measures import mean_squared_error, nearest, structural_similarity
from dppipe.audit.attacks.predictor import class_numbers

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

    from dppipe.audit.attacks.box import Box
    from dppipe.audit.attacks.inversion.class_inversion import Inverted
    from dppipe.audit.attacks.inversion.own_records import Sides
    from dppipe.audit.attacks.records import Records


@dataclass(frozen=True)
class Likeness:
    """How like the nearest record of some an input is."""

    mse: float
    ssim: float | None
    """For images."""


@dataclass(frozen=True)
class Judgement:
    """What is said of one inverted class."""

    number: int
    confidence: float
    """The attacked model's probability of the class."""
    matched: bool | None
    """Whether an independent model takes it for the class; None where it doesn't know the class."""
    member: Likeness
    other: Likeness

    @property
    def nearer_to_member(self) -> float:
        """1 where a member is nearer than anybody else, 0 where it isn't, 1/2 for a tie."""
        if self.member.mse == self.other.mse:
            return 0.5
        return float(self.member.mse < self.other.mse)


class IndependentJudge:
    """A model of the attacker's own records alone, which says what class an input is of."""

    def __init__(self, own: Records) -> None:
        numbers = class_numbers(own.targets).numpy()
        self.classes = frozenset(numbers.tolist())
        self._model: LogisticRegression | None = None
        if len(self.classes) > 1:
            from sklearn.linear_model import LogisticRegression

            self._model = LogisticRegression(max_iter=2000)
            self._model.fit(_rows(own.inputs), numbers)

    def matches(self, record: Tensor, number: int) -> bool | None:
        """Return whether an input is taken for the class; None where the class isn't known."""
        if self._model is None or number not in self.classes:
            return None
        return int(self._model.predict(_rows(record[None]))[0]) == number


def judge(
    inverted: Inverted, sides: Sides, judge_by: IndependentJudge, *, box: Box | None
) -> list[Judgement]:
    """Return what is said of each inverted class."""
    found = []
    for place, number in enumerate(inverted.classes):
        record = inverted.records[place]
        found.append(
            Judgement(
                number,
                inverted.confidences[place],
                judge_by.matches(record, number),
                _likeness(record, sides.members.inputs, box=box),
                _likeness(record, sides.others.inputs, box=box),
            )
        )
    return found


def class_means(own: Records, classes: tuple[int, ...]) -> dict[int, Tensor]:
    """Return the mean of the attacker's own records of each class, where there are some."""
    numbers = class_numbers(own.targets)
    means: dict[int, Tensor] = {}
    for number in classes:
        mine = own.inputs[numbers == number]
        if len(mine):
            means[number] = mine.mean(0)
    return means


def chance_of(nearer: float, judged: int) -> float:
    """Return how probable it is that fair coins say "member" so often, or more often.

    Guarantee: members and others are as many and alike, so a result that owes nothing to membership
    has its nearest record on either side with the same chance. Results of several classes share one
    model; the number is a help to read the count by, no bound.
    """
    hits = int(numpy.floor(nearer))
    return float(stats.binom.sf(hits - 1, judged, 0.5))


def _likeness(record: Tensor, others: Tensor, *, box: Box | None) -> Likeness:
    other = others[nearest(record, others)]
    ssim = None
    if record.dim() == 3:
        span = box.span if box is not None else float(others.max() - others.min())
        ssim = structural_similarity(record, other, span=max(span, 1e-12))
    return Likeness(mean_squared_error(record, other), ssim)


def _rows(inputs: Tensor) -> numpy.ndarray:  # [n, ...] -> [n, d]
    rows: numpy.ndarray = torch.flatten(inputs, 1).double().numpy()
    return rows
