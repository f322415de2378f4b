"""The ledger of a run: every step's cost, on disk before the step's noisy gradient is released.

The file is append-only, with one row per charge and one writer. `dppipe.privacy.charges` defines
the bytes and reads them back; `dppipe.runs.verify` recomputes epsilon from them. A crash can waste
budget; it can never hide spending.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dppipe.durable import sync_names
from dppipe.errors import DppipeError, PrivacyRefusal, UsageError
from dppipe.privacy.charges import Charge
from dppipe.privacy.events.plain import event_to_data
from dppipe.privacy.ledger_reading import LedgerCorrupt, LedgerRows, read_ledger
from dppipe.privacy.ledger_rows import digest, encode_row
from dppipe.runs.ledger_file import lock, overwrite_end, write_all

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["Charge", "Ledger"]

# Each write is on the disk, with the file's new size, when it returns. O_APPEND keeps every earlier
# byte where it is.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_DSYNC | os.O_CLOEXEC | os.O_NOFOLLOW

_TORN_KEPT = 1024
"""How many bytes of a torn line its row keeps, however often closing it is interrupted."""


class Ledger:
    """The one writer of a run's ledger.

    Guarantees:
    - When `charge` returns, the row is durable.
    - When `charge` raises, nothing may be released and no further charge is taken.
    - A line that a crash has torn is never dropped: it is charged as one row before any other.
    """

    def __init__(self, path: Path, *, fd: int, plan: bytes) -> None:
        """Use `create` or `open`."""
        self.path = path
        self.head = digest(plan)
        """The SHA-256 of the last row's line; of the plan before the first row.

        It goes into every checkpoint and the summary.
        """
        self.row_hash = ""
        """The `hash` of the last row that was written here, which rows that it pays for name."""
        self.rows = 0
        self.step = 0
        """The step that the last row charges; 0 before the first."""
        self.charged = 0
        """How many times an event was charged: the sum of all counts."""
        self.torn = b""
        """The bytes of a row that a crash has cut off.

        `close_torn` comes before any other charge.
        """
        self._fd = fd
        self._plan = plan
        self._epsilon = 0.0
        self._size = 0
        self._usable = True
        self._event: tuple[DpEvent, dict[str, Any]] | None = None
        _OPEN.add(self)

    @classmethod
    def create(cls, path: Path | str, *, plan: bytes) -> Self:
        """Start an empty ledger for this plan (the bytes of plan.json).

        A file that exists is refused.
        """
        path = Path(path)
        try:
            fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError as error:
            raise PrivacyRefusal(
                f"{path}: expected no ledger, got one: a run was charged here. Resume it, or "
                "choose another run directory."
            ) from error
        except OSError as error:
            raise UsageError(
                f"{path}: expected a directory that can be written to, got {error.strerror}."
            ) from error
        ledger = cls(path, fd=fd, plan=plan)
        try:
            lock(fd, path=path)
            sync_names(path)
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def open(cls, path: Path | str, *, plan: bytes, seen: tuple[str, int] | None = None) -> Self:
        """Reopen a ledger.

        A torn last line is left as it is and shown as `torn`. A changed ledger is refused with the
        line's number, and so is one that lacks rows which the checkpoint has seen.

        Args:
            path: The ledger.
            plan: The bytes of plan.json.
            seen: The head and the number of rows that the checkpoint to resume from names.
        """
        path = Path(path)
        try:
            fd = os.open(path, _FLAGS)
        except OSError as error:
            raise UsageError(
                f"{path}: expected a ledger that can be written to, got {error.strerror}."
            ) from error
        ledger = cls(path, fd=fd, plan=plan)
        try:
            lock(fd, path=path)
            ledger._read_back(plan, seen=seen)
        except BaseException:
            ledger.close()
            raise
        return ledger

    def charge(self, charge: Charge) -> None:
        """Charge one step; when this returns, the row is durable and the step may be released."""
        if self.torn:
            raise DppipeError(
                f"{self.path}:{self.rows + 1}: expected a whole row, got a torn one. Close it "
                "first."
            )
        self._append(charge)

    def close_torn(self, charge: Charge) -> None:
        """Replace the torn line by a whole row that charges the costliest step it may have been.

        Nothing was released for a torn line, since `charge` didn't return; it stays charged all the
        same. The row is written over the torn bytes, which it keeps as `torn`. If it is cut off
        anywhere, it is again a torn line and can be closed again.
        """
        if not self.torn:
            raise DppipeError(f"{self.path}: expected a torn last line, got whole rows only.")
        self._append(charge)

    def last_row(self) -> tuple[Charge, str]:
        """Read the last whole row back: what it charges, and its `hash`."""
        found = read_ledger(self.path, plan=self._plan)
        if not found.rows:
            raise DppipeError(f"{self.path}: expected a row, got none.")
        line = self.path.read_bytes()[: found.size].splitlines()[-1]
        return found.charges[-1], line[-66:-2].decode()

    def catch_up(self) -> None:
        """Read from the file what is charged, if a charge was interrupted.

        Its row may be there whole, cut off, or not at all.
        """
        if not self._usable:
            self._restore(read_ledger(self.path, plan=self._plan))

    def close(self) -> None:
        """Close the file and release its lock."""
        fd = self._fd
        self._fd = -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read_back(self, plan: bytes, *, seen: tuple[str, int] | None) -> None:
        found = read_ledger(self.path, plan=plan)
        if seen is not None:
            head, rows = seen
            if not 0 <= rows <= found.rows or found.heads[rows] != head:
                raise LedgerCorrupt(
                    f"{self.path}:{rows}: expected the row that the checkpoint has seen, got "
                    "another or none. Take the checkpoint that this run wrote itself."
                )
        self._restore(found)
        if not found.ended and not found.torn:
            self._write(b"\n")
            self._usable = True

    def _restore(self, found: LedgerRows) -> None:
        self.head = found.head
        self.rows = found.rows
        self.torn = found.torn
        self._size = found.size + len(found.torn)
        self._epsilon = max((charge.epsilon for charge in found.charges), default=0.0)
        self.step = found.last_step
        self.charged = sum(charge.count for charge in found.charges)

    def _append(self, charge: Charge) -> None:
        if self._event is None or self._event[0] != charge.event:
            self._event = charge.event, event_to_data(charge.event)
        torn = self.torn[:_TORN_KEPT].decode()
        line = encode_row(
            charge, row=self.rows + 1, prev=self.head, torn=torn, event=self._event[1]
        )
        if charge.epsilon < self._epsilon:
            raise PrivacyRefusal(
                f"{self.path}: epsilon: expected at least {self._epsilon!r}, already charged, got "
                f"{charge.epsilon!r}."
            )
        self._write(line + b"\n")
        self.head = digest(line)
        self.row_hash = line[-66:-2].decode()  # what stands before the closing `"}`
        self.rows += 1
        self.torn = b""
        self._epsilon = float(charge.epsilon)
        self.step = max(self.step, charge.step)
        self.charged += charge.count
        self._usable = True

    def _write(self, data: bytes) -> None:
        if not self._usable or self._fd < 0:
            raise DppipeError(
                f"{self.path}: expected an open ledger, got one that is closed or has failed. "
                "Resume the run."
            )
        # Whatever interrupts the charge: no row may follow half a row, or one that isn't counted.
        self._usable = False
        # The size differs if locks don't hold between machines, or if someone wrote to the file.
        if os.fstat(self._fd).st_size != self._size:
            raise PrivacyRefusal(
                f"{self.path}: expected {self._size} bytes, as this run has written, got more or "
                "less. It ends."
            )
        try:
            if self.torn:
                overwrite_end(self._fd, data, over=len(self.torn))
            else:
                write_all(self._fd, data)
        except OSError as error:
            raise DppipeError(
                f"{self.path}: row {self.rows + 1} can't be written: {error.strerror}. Nothing was "
                "released for it. Make room or fix the disk, then resume the run."
            ) from error
        self._size += len(data) - len(self.torn)


_OPEN: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _close_in_child() -> None:
    # A forked worker (a data loader's) would keep the lock after this process is killed, and could
    # write.
    for ledger in list(_OPEN):
        ledger.close()


os.register_at_fork(after_in_child=_close_in_child)
