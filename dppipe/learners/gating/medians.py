"""Drawing noisy medians of the columns of a table, each charged for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dppipe.errors import PrivacyRefusal
from dppipe.learners.gating.selection import selecting_mechanism
from dppipe.randomness.median import MedianStream, select_medians

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.privacy.release import Release


def refuse_other_charge(release: Release, columns: int) -> None:
    """Refuse a release that isn't charged as an exponential mechanism for each median."""
    if selecting_mechanism(release.event) != "exponential":
        raise PrivacyRefusal(
            "gate: expected an ExponentialMechanismDpEvent for medians, got "
            f"{type(release.event).__name__}. Charge the mechanism that draws them."
        )
    if release.count != columns:
        raise PrivacyRefusal(
            f"gate: expected a release that is charged {columns} times, once for each median, got "
            f"{release.count}. Nothing was charged."
        )


def draw_medians(
    release: Release, table: Tensor, columns: int, radius: float, stream: MedianStream
) -> Tensor:  # [rows, columns] -> [columns]
    """Return a median of each column, by the exponential mechanism with the event's epsilon.

    Guarantee: whatever the relation, one unit changes one row at most (`SELECTION.md`, lemma 7).
    """
    if table.dim() != 2 or table.shape[1] != columns:
        raise PrivacyRefusal(
            f"gate: expected a table with {columns} columns, got the shape {tuple(table.shape)}. "
            "Nothing was released."
        )
    values = table.double().cpu().numpy()
    epsilon = float(release.event.epsilon)
    return torch.from_numpy(select_medians(values, radius=radius, epsilon=epsilon, stream=stream))
