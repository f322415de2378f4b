"""A fit that a row of another ledger has paid for: one run of a private search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dppipe.lightning.callback import DPCallback


class CoveredCallback(DPCallback):
    """The callback of one run of a search; only the search of the package makes one.

    Guarantee: each row of its ledger counts nothing, and names the row that has paid. It reserves
    in no scope, and leaves no curves and no statement.
    """

    def __init__(self, *, covered_by: str, **options: Any) -> None:
        """Take the hash of the row that has paid, and the options of a `DPCallback`."""
        super().__init__(**options)
        training = self._training
        training.options = replace(training.options, covered_by=covered_by)
