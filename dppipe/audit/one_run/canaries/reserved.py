"""Reserved canaries: each moves one coordinate of the step's sum that no layer uses.

The coordinates stand behind the gradient in the step's buffer. They get the noise that all others
get, and the optimizer never sees them: the weights are those of a run without an audit. Canaries
are put in behind the clipper, so they test the sampler, the sum, the noise, the charge and their
composition, but not the clipping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from dppipe.audit.one_run.canaries.planting import PlantedCanaries

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.learners.records.reading import Indices
    from dppipe.learners.sgd.canaries import WatchedStep


class ReservedCanaries(PlantedCanaries):
    """Canaries with a coordinate of their own."""

    kind = "reserved"

    def add_(self, coordinates: Tensor, drawn: Indices, *, bound: float) -> None:
        """Raise the coordinate of each drawn canary by the bound, if its coin says "in".

        Under `replace_one` it is raised or lowered by the bound: the coin decides which.
        """
        here = self.present[drawn]
        if self._scores.replaces:
            moves = np.where(here, bound, -bound)
        else:
            drawn = drawn[here]
            moves = np.full(len(drawn), bound)
        places = torch.from_numpy(drawn).to(coordinates.device)
        coordinates.index_add_(0, places, torch.from_numpy(moves).to(coordinates))

    def along(self, seen: WatchedStep) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each canary's own coordinate."""
        noisy = seen.coordinates.cpu().numpy().astype(np.float64)
        return noisy, np.full(self.number, seen.bound)
