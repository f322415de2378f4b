"""Embeddings of codes beside numbers: the first layer of a network for tables."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Embedded(nn.Module):
    """Looks up an embedding for each input that holds a code, and keeps the other inputs.

    A row's output depends on that row alone.
    """

    def __init__(self, inputs: int, widths: Mapping[int, tuple[int, int]]) -> None:
        """Make one table for each code.

        Args:
            inputs: The number of inputs of a row.
            widths: The number of entries and the width of each code's embeddings, by its place.
        """
        super().__init__()
        self.last_codes = {place: entries - 1 for place, (entries, _) in widths.items()}
        self.numbers = [place for place in range(inputs) if place not in widths]
        tables = [nn.Embedding(entries, width) for entries, width in widths.values()]
        self.tables = nn.ModuleList(tables)
        self.width = len(self.numbers) + sum(width for _, width in widths.values())

    def forward(self, inputs: Tensor) -> Tensor:  # [b, inputs] -> [b, width]
        """Return the numbers of each row, then its embeddings."""
        parts = [inputs[:, self.numbers]]
        for (place, last), table in zip(self.last_codes.items(), self.tables, strict=True):
            # A code of made-up or broken inputs may lie outside the table.
            code = torch.nan_to_num(inputs[:, place]).clamp(0, last).long()
            parts.append(table(code))
        return torch.cat(parts, dim=1)
