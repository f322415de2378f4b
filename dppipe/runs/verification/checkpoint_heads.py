"""What the checkpoint of a run knows of its ledger.

A run that was killed has no summary. Its last checkpoint still names the ledger's head at the time,
so that rows which were taken off the end since are noticed, whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.runs.directory import RunDirectory


def checkpoint_head(run: RunDirectory) -> str | None:
    """Return the ledger's head that a run's last checkpoint names; None without a checkpoint.

    Nothing in the checkpoint can run.
    """
    path = run.last_checkpoint
    if not path.exists():
        return None
    from dppipe.runs.tensors import load_tensors  # torch is slow to load

    checkpoint = load_tensors(path)
    states = checkpoint.get("callbacks") if isinstance(checkpoint, Mapping) else None
    for state in states.values() if isinstance(states, Mapping) else ():
        head = _named_head(state)
        if head is not None:
            return head
    raise UsageError(f"{path}: expected the checkpoint of a run, got another file of tensors.")


def _named_head(state: Any) -> str | None:
    """Return the head that a callback's state names: the key is the user's, if it is a subclass."""
    head = state.get("ledger_head") if isinstance(state, Mapping) else None
    return head if isinstance(head, str) else None
