"""What the other ranks have in place of the record: the first rank charges and writes, they do neither."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dppipe.planning.plan import Plan
from dppipe.privacy.charges import Charge
from dppipe.runs.metric_names import Holdout
from dppipe.runs.outcome import Stop

if TYPE_CHECKING:
    import pytorch_lightning as pl


class NoLedger:
    """Stands where the first rank has its ledger."""

    head, torn, rows, step = "", b"", 0, 0

    def charge(self, charge: Charge) -> None:
        """Do nothing: the first rank has charged the step."""

    def close_torn(self, charge: Charge) -> None:
        """Do nothing: only a ledger on disk can be torn."""


class Follower:
    """Stands where the first rank has its `RunRecord`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.validations = 0
        self.ledger = NoLedger()

    def step(
        self, *, max_grad_norm: float, noise_multiplier: float, nonprivate: Mapping[str, float]
    ) -> None:
        """Do nothing."""

    def facts(self, values: Mapping[str, float], *, step: int) -> None:
        """Do nothing."""

    def validation(self, values: Mapping[str, Any], *, step: int, holdout: Holdout) -> None:
        """Do nothing."""

    def checkpoint(self, trainer: pl.Trainer) -> None:
        """Take part in saving, which only the first rank writes."""
        trainer.save_checkpoint("unused")

    def finish(
        self,
        weights: Mapping[str, Tensor],
        *,
        stopped: Stop | None,
        steps: int,
        physical_batch_size: int | None = None,
        independence: str | None = None,
        validates: bool = True,
        start: Collection[str] = (),
    ) -> None:
        """Do nothing."""
