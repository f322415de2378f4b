"""What one run of a private search is given: the search has paid for it, and has read the records.

Guarantee: each row of such a run's ledger counts nothing and names the row that has paid. The run
reserves in no scope, and leaves no curves and no statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dppipe.data.base import Splits
    from dppipe.runs.directory import RunDirectory


@dataclass(frozen=True)
class Paid:
    """What one run of a search shares with the others."""

    row: str
    """The hash of the row that has paid."""
    splits: Splits
    """The records as the model sees them, without those that runs are scored on."""
    run: RunDirectory
    """The directory of the search, with what was released once for all runs."""
