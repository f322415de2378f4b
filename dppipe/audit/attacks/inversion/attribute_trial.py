"""Inferring a column of a run's records, by its model, its twin's, and by the prior alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.audit.attacks.inversion.attribute import guess_values, spread_of_errors
from dppipe.audit.attacks.inversion.columns import Values
from dppipe.audit.counts import lower_bound, upper_bound

if TYPE_CHECKING:
    from dppipe.audit.attacks.inversion.own_records import Sides
    from dppipe.audit.attacks.predictor import Predictor
    from dppipe.audit.attacks.records import Records

PRIOR_ALONE = "prior alone"
ERROR = 0.05
"""The chance that the bounds on a difference are wrong."""


@dataclass(frozen=True)
class Hits:
    """How often the right value was guessed, of members and of as many others."""

    members: int
    others: int
    each: int
    """How many of each were guessed."""

    @property
    def difference(self) -> float:
        """The accuracy on members minus that on others."""
        return (self.members - self.others) / self.each

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds on the difference that both hold with probability 0.95.

        Guarantee: four one-sided Clopper-Pearson bounds of 0.05 / 4 each, for records that are
        drawn independently.
        """
        error = ERROR / 4
        least = lower_bound(self.members, self.each, error=error)
        least -= upper_bound(self.others, self.each, error=error)
        most = upper_bound(self.members, self.each, error=error)
        most -= lower_bound(self.others, self.each, error=error)
        return least, most


@dataclass(frozen=True)
class AttributeTrial:
    """How often each model's guesses, and those of the prior, were right."""

    values: Values
    hits: Mapping[str, Hits]


def run_attribute_trial(
    models: Mapping[str, Predictor], sides: Sides, values: Values
) -> AttributeTrial:
    """Guess the unknown column of members and others by each model, and by the prior alone."""
    prior = values.prior(sides.own.inputs)
    hits: dict[str, Hits] = {}
    for name, model in models.items():
        spread = spread_of_errors(model, sides.members.inputs, sides.members.targets)

        def guess(
            records: Records, model: Predictor = model, spread: float | None = spread
        ) -> Tensor:
            return guess_values(
                model, records.inputs, records.targets, values, prior=prior, spread=spread
            )

        hits[name] = _hits(values, sides, guess(sides.members), guess(sides.others))
    common = int(prior.argmax())
    always = torch.full((len(sides.members),), common)
    hits[PRIOR_ALONE] = _hits(values, sides, always, always)
    return AttributeTrial(values, hits)


def _hits(values: Values, sides: Sides, of_members: Tensor, of_others: Tensor) -> Hits:
    members = int((of_members == values.numbers(sides.members.inputs)).sum())
    others = int((of_others == values.numbers(sides.others.inputs)).sum())
    return Hits(members, others, len(sides.members))
