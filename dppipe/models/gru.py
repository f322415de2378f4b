"""GRU layers on token ids (Cho et al. 2014)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.models.tokens import RecurrentModel

if TYPE_CHECKING:
    from torch import nn


class Gru(RecurrentModel, kind="gru"):
    """Embeddings of token ids, GRU layers, and an output layer."""

    def cell(self) -> type[nn.GRU]:
        from torch import nn

        return nn.GRU
