"""Loss: a record with a small loss was trained on (Yeom et al. 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


def loss_scores(losses: NDArray[numpy.float64]) -> NDArray[numpy.float64]:  # [n] -> [n]
    """Return scores that are larger where a record is more likely a member."""
    return -losses
