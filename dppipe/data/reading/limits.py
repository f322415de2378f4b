"""Public limits that values are held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Limits:
    """Public limits of the first features of an input; one without limits has infinite ones."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def transformed(self, inputs: Tensor) -> Tensor:  # [n, features] -> [n, features]
        """Return the inputs with their first features held to the limits."""
        import torch

        first = len(self.lower)
        lower = torch.tensor(self.lower, dtype=torch.float64).to(inputs)
        upper = torch.tensor(self.upper, dtype=torch.float64).to(inputs)
        held = torch.minimum(torch.maximum(inputs[:, :first], lower), upper)
        return torch.cat([held, inputs[:, first:]], dim=1)
