"""The record of every rank but the first: the first rank charges and writes, they do neither."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from torch import Tensor

from dppipe.planning.plan import Plan
from dppipe.privacy.charges import Charge
from dppipe.runs.metric_names import Holdout
from dppipe.runs.outcome import FitFacts, Stop

if TYPE_CHECKING:
    import pytorch_lightning as pl


class NoLedger:
    """The ledger of a rank that doesn't charge."""

    head = ""
    row_hash = ""
    torn = b""
    rows = 0
    step = 0

    def charge(self, charge: Charge) -> None:
        """Do nothing: the first rank has charged the step."""

    def close_torn(self, charge: Charge) -> None:
        """Do nothing: only a ledger on disk can be torn."""


class Follower:
    """The record of a rank that doesn't write; it has the methods of `RunRecord`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.validations = 0
        self.ledger = NoLedger()

    def step(self, *, facts: Mapping[str, float], nonprivate: Mapping[str, float]) -> None:
        """Do nothing."""

    def release(self, charge: Charge) -> None:
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
        start: Collection[str] = (),
        **facts: Unpack[FitFacts],
    ) -> None:
        """Do nothing."""
