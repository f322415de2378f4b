"""Input canaries: made-up records with wrong labels that go through the model like any other.

They test the engine's clipping too, as reserved canaries can't. They do the model some harm: a run
with them is an audit's run, and its model isn't for use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from dppipe.audit.one_run.canaries.planting import PlantedCanaries
from dppipe.data.reading.tasks import NO_TAG
from dppipe.learners.inputs.model_inputs import made_up_batch
from dppipe.learners.records.reading import PhysicalBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.data.base import Data
    from dppipe.learners.records.reading import Indices
    from dppipe.learners.sgd.canaries import WatchedStep


class InputCanaries(PlantedCanaries):
    """Canaries that are rows of the model's input."""

    kind = "inputs"

    def __init__(
        self,
        batch: tuple[Tensor, Tensor],
        *,
        guesses: int,
        level: float,
        made_up: bool,
        by_users: bool = False,
    ) -> None:
        """Plan an audit with these rows; `by_users`: each of them is a user of its own."""
        super().__init__(len(batch[0]), guesses=guesses, level=level, made_up=made_up)
        self.batch = batch
        self._by_users = by_users

    def rows(self, drawn: Indices) -> PhysicalBatch | None:
        """Return the rows of the drawn canaries that are in; None where there is none."""
        inside = drawn[self.present[drawn]]
        return self._take(inside) if len(inside) else None

    def along(self, seen: WatchedStep) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the noisy gradient along each canary's clipped gradient at the step's weights."""
        noisy = np.zeros(self.number)
        shift = np.zeros(self.number)
        for canary in range(self.number):
            own = seen.clipped(self._take(np.array([canary]))).double()
            length = float(own.norm())
            if np.isfinite(length) and length > 0:
                shift[canary] = length
                noisy[canary] = float(own @ seen.gradient) / length
        return noisy, shift

    def _take(self, canaries: Indices) -> PhysicalBatch:
        chosen = torch.from_numpy(canaries)
        parts = [[tensor.index_select(0, chosen) for tensor in self.batch]]
        return PhysicalBatch(parts, canaries if self._by_users else None)


def mislabelled(data: Data, *, number: int, after: int) -> tuple[Tensor, Tensor]:
    """Return made-up examples with labels that are wrong, as the model sees them.

    They follow `after` other made-up examples, which a run may be trained on, so that none repeats.
    """
    inputs, targets = made_up_batch(data, after + number)
    chosen = torch.as_tensor(inputs)[after:]
    labels = torch.as_tensor(targets)[after:]
    if data.task == "tagging":
        return chosen, torch.where(labels == NO_TAG, NO_TAG, (labels + 1) % data.outputs)
    if data.task == "multiclass":
        return chosen, (labels + 1) % data.outputs
    return chosen, 1 - labels if data.task == "binary" else -labels
