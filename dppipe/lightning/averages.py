"""The running mean of the weights, which is validated and saved instead of the optimizer's own.

It is computed from weights after updates, which are released values, so it costs no privacy.
Nothing here knows Lightning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from dppipe.optim.averaging.base import Averaging


class WeightAverage:
    """A mean of a network's trainable weights over the updates of a run."""

    def __init__(
        self,
        network: nn.Module,
        averaging: Averaging,
        *,
        steps: int,
        means: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._weights = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._averaging = averaging
        self._steps = steps
        self.means: dict[str, Tensor] = {}
        """The mean of each weight, float32 or wider; empty before the first update."""
        for name, mean in (means or {}).items():
            self.means[name] = mean.to(self._weights[name].device)
        self._swapped = False

    @torch.no_grad()
    def add(self, update: int) -> None:
        """Add the weights after an update, counted from 1, to the mean."""
        share = self._averaging.weight(update, steps=self._steps)
        for name, weight in self._weights.items():
            value = weight.to(torch.promote_types(weight.dtype, torch.float32))
            if share == 1 or name not in self.means:
                self.means[name] = value.clone()
            else:
                self.means[name].lerp_(value, share)

    @torch.no_grad()
    def swap(self) -> None:
        """Swap weights and means; a second call undoes it."""
        if self.means:
            self._swapped = not self._swapped
            for name, weight in self._weights.items():
                kept = weight.to(self.means[name].dtype, copy=True)
                weight.copy_(self.means[name])
                self.means[name] = kept

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the means in the network during a block."""
        swaps = not self._swapped
        if swaps:
            self.swap()
        try:
            yield
        finally:
            if swaps:
                self.swap()
