"""A charge, written to disk while what it pays for is computed.

Everything in a row of the ledger is known before a record is drawn. So its writing may start as
soon as the budget was asked, and only has to be over before noise is drawn. A release that fails in
between stays charged, as it does after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dppipe.runs.ledger import Charge

if TYPE_CHECKING:
    from dppipe.runs.follower import NoLedger
    from dppipe.runs.ledger import Ledger


@contextmanager
def charging(
    ledger: Ledger | NoLedger, charge: Charge, *, writer: Executor
) -> Iterator[Future[None]]:
    """Charge a release in another thread during a block; yield what the block may wait for.

    The block may not use the ledger, and may not release anything before the row is durable.

    Guarantees:
    - When the block is left without an error, the row is durable.
    - If the row can't be written, leaving the block raises an error.
    - However the block is left, nothing is written after it.
    """
    charged = writer.submit(ledger.charge, charge)
    try:
        yield charged
    finally:
        _wait_for(charged)
    charged.result()


def _wait_for(charged: Future[None]) -> None:
    try:
        wait([charged])
    except BaseException:  # a Ctrl-C while waiting: the file must not be closed under a write
        wait([charged])
        raise
