"""What the other ranks have in place of the record: they count the charges that the first rank makes, and write nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytorch_lightning as pl
from torch import nn

from dppipe.planning.plan import Plan
from dppipe.privacy.charges import Charge
from dppipe.training.outcome import Stop


class Tally:
    """Counts charges, so that every rank knows which step it is in."""

    head, torn = "", b""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def charge(self, charge: Charge) -> None:
        """Count one step; the first rank has charged it."""
        self.rows += 1

    def close_torn(self, charge: Charge) -> None:
        """Do nothing: only a ledger on disk can be torn."""


class Follower:
    """Stands where the first rank has its `RunRecord`."""

    def __init__(self, plan: Plan, *, rows: int) -> None:
        self.plan = plan
        self.ledger = Tally(rows)

    def step(self, *, max_grad_norm: float, nonprivate: Mapping[str, float]) -> None:
        """Do nothing."""

    def validation(self, values: Mapping[str, Any], *, step: int, holdout: Literal["public", "private"]) -> None:
        """Do nothing."""

    def checkpoint(self, trainer: pl.Trainer) -> None:
        """Take part in saving, which only the first rank writes."""
        trainer.save_checkpoint("unused")

    def finish(self, network: nn.Module, *, stopped: Stop | None, steps: int) -> None:
        """Do nothing."""
