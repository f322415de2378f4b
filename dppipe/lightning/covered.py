"""A fit that a row of another ledger has paid for: one run of a private search."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dppipe.lightning.callback import DPCallback


def cover(callback: DPCallback, *, row: str) -> None:
    """Say which row has paid for a callback's fit; only the search of the package does.

    Guarantee: each row of the fit's ledger counts nothing, and names the row that has paid. The fit
    reserves in no scope, and leaves no curves and no statement.

    Args:
        callback: A callback that wasn't fitted yet.
        row: The hash of the row.
    """
    training = callback._training
    training.options = replace(training.options, covered_by=row)
