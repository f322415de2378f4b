"""Lightning's checkpoints of a run, written and read by `dppipe.runs.tensors`."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from dppipe.errors import DppipeError, UsageError
from dppipe.lightning.names.bases import TorchCheckpointIO
from dppipe.runs.tensors import load_tensors, refuse_misfit, save_tensors

if TYPE_CHECKING:
    from lightning_fabric.utilities.types import _PATH

_PARTS = {
    "state_dict": dict,
    "optimizer_states": list,
    "lr_schedulers": list,
    "loops": dict,
    "callbacks": dict,
    "global_step": int,
}
_CALLBACK_PARTS = {"steps": int, "ledger_head": str, "ledger_rows": int}
_RESTORES = ("_restore_modules_and_callbacks", "restore_training_state")


class DurableCheckpoints(TorchCheckpointIO):
    """Saves checkpoints whole or not at all.

    Lightning's own way goes through TMPDIR. On another device that is a copy, which a kill cuts
    short.
    """

    def __init__(self, module: nn.Module | None = None) -> None:
        """Refuse checkpoints that don't fit `module`, where it is given."""
        self._module = module

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any | None = None
    ) -> None:
        """Save a checkpoint, whole or not at all."""
        save_tensors(checkpoint, Path(path))

    def load_checkpoint(
        self, path: _PATH, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load a checkpoint; nothing in it can run."""
        checkpoint: dict[str, Any] = load_tensors(Path(path))
        is_lightnings = _holds(checkpoint, _PARTS)
        own = checkpoint["callbacks"].get("DPCallback") if is_lightnings else None
        if not _holds(own, _CALLBACK_PARTS):
            raise UsageError(
                f"{path}: expected the checkpoint of a run, got another file of tensors."
            )
        if self._module is not None:
            refuse_misfit(checkpoint["state_dict"], self._module.state_dict(), path=Path(path))
        return checkpoint


def _holds(data: Any, parts: Mapping[str, type]) -> bool:
    if not isinstance(data, dict):
        return False
    return all(isinstance(data.get(name), kind) for name, kind in parts.items())


@contextmanager
def restoring(path: Path | None) -> Iterator[None]:
    """Name the checkpoint in the error of a Trainer that fails to restore it.

    Its parts are of the right kind, but don't fit the run.
    """
    try:
        yield
    except DppipeError:
        raise
    except Exception as error:
        functions = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
        if path is None or functions.isdisjoint(_RESTORES):
            raise
        raise UsageError(
            f"{path}: expected a checkpoint that fits the run, got one that doesn't "
            f"({type(error).__name__})."
        ) from error
