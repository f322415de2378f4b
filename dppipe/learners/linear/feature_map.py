"""The features of a frozen network: what its last layer is called with, each record alone."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dppipe.engine.checks.independence import close
from dppipe.errors import PrivacyRefusal
from dppipe.learners.gating.unit_isolation import restoring
from dppipe.learners.linear.last_layer import bounded_layer, made_up_inputs, seeing_inputs
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.silenced_output import silenced

if TYPE_CHECKING:
    from dppipe.learners.linear.rows import Features
    from dppipe.privacy.release import PublicFacts

_NO_MAP = (nn.Flatten, nn.Identity, nn.Sequential)
"""Layers that leave the numbers of an input as they are."""


def feature_map(network: nn.Module, facts: PublicFacts) -> Features | None:
    """Return the map from inputs to features of a network that ends in a bounded layer.

    It is None where features are the flattened inputs themselves. A network in which records see
    each other is refused: tried on made-up records, before anything is charged.
    """
    last = bounded_layer(network)
    if all(layer is last or type(layer) in _NO_MAP for layer in network.modules()):
        return None
    found = FeatureMap(network)
    found.refuse_mixing(made_up_inputs(facts).to(torch.float64))
    return found


class FeatureMap:
    """Computes features of batches.

    Guarantees:
    - A record's features are a function of that record alone: the network is a copy in eval mode,
      whose state is restored after each batch, and rows were shown not to see each other.
    - A record on which the network raises, or whose features aren't finite, is not usable; the
      others' features stay as they are.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = copy.deepcopy(network).eval()
        self._last = bounded_layer(self._network)

    def __call__(self, inputs: Tensor, usable: Tensor) -> tuple[Tensor, Tensor]:
        # [b, ...], [b] -> [b, d], [b]
        """Return features in float64, and which places can be used."""
        with silenced():
            found = self._try(inputs)
            if found is None:
                inputs, usable = self._without_raising(inputs, usable)
                found = self._try(inputs)
            if found is None:  # rows that raise only together: each goes alone
                found = self._one_by_one(inputs)
        fits = usable & found.isfinite().all(1)
        return torch.where(fits[:, None], found, 0.0), fits

    def refuse_mixing(self, inputs: Tensor) -> None:  # [b, ...]
        """Refuse a network whose features of a row depend on the other rows, or on earlier ones."""
        together = self._features(inputs)
        alone = torch.cat([self._features(row[None]) for row in inputs])
        others = torch.cat([inputs[:1], inputs[1:].flip(0) * 3 + 1])
        replaced = self._features(others)[:1]
        again = self._features(inputs)
        same = (
            close(together, alone) and close(replaced, alone[:1]) and torch.equal(again, together)
        )
        if not same:
            raise PrivacyRefusal(
                "model: expected features of each record alone, got a network whose features of a "
                "made-up record change with the others of its batch, or from call to call. One "
                "record would move the rows of others."
            )

    def _features(self, inputs: Tensor) -> Tensor:  # [b, ...] -> [b, d]
        with torch.no_grad(), restoring(self._network), seeing_inputs(self._last) as seen:
            self._network(inputs.to(self._last.weight.dtype))
            (found,) = seen
            return found.to(torch.float64).reshape(len(inputs), self._last.in_features).clone()

    def _try(self, inputs: Tensor) -> Tensor | None:
        with SuppressRecordErrors():
            return self._features(inputs)
        return None

    def _without_raising(self, inputs: Tensor, usable: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch with zeros in place of records on which the network raises alone."""
        inputs, usable = inputs.clone(), usable.clone()
        for place in usable.nonzero().flatten().tolist():
            if self._try(inputs[place : place + 1]) is None:
                inputs[place] = 0.0
                usable[place] = False
        return inputs, usable

    def _one_by_one(self, inputs: Tensor) -> Tensor:
        nothing = torch.full((1, self._last.in_features), torch.nan, dtype=torch.float64)
        rows = [self._try(row[None]) for row in inputs]
        return torch.cat([nothing if row is None else row for row in rows])
