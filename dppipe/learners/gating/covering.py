"""The row that pays for other ledgers, where an earlier start of the run has written it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.privacy.ledger_reading import LedgerCorrupt
from dppipe.runs.ledger import Ledger

if TYPE_CHECKING:
    from dppipe.privacy.charges import Charge
    from dppipe.runs.follower import NoLedger


def written_row(ledger: Ledger | NoLedger, charge: Charge, *, number: int) -> str | None:
    """Return the hash of the row that charges this already; None where there is none yet.

    Args:
        ledger: The ledger of the run that pays.
        charge: What the row has to charge.
        number: How many rows stand before it.
    """
    if not isinstance(ledger, Ledger):
        return None
    if ledger.rows == number and ledger.torn:
        ledger.close_torn(charge)
        return ledger.row_hash
    if ledger.rows <= number:
        return None
    written, found = ledger.last_row()
    same = (written.what, written.event, written.count) == (charge.what, charge.event, charge.count)
    if ledger.rows != number + 1 or not same:
        raise LedgerCorrupt(
            f"{ledger.path}:{number + 1}: expected the row that pays for the search, got another. "
            "It can't be trusted."
        )
    return found
