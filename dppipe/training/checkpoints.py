"""Checkpoints that are whole or not there, and that hold tensors and plain values only.

They are written beside their name, synced, then renamed onto it; reading one never runs code that stands in it.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dppipe.errors import DppipeError, UsageError
from dppipe.training.lightning_bases import TorchCheckpointIO
from dppipe.training.run_directory import replacing

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


def save_tensors(data: Any, path: Path) -> None:
    """Save tensors and plain values, whole or not at all."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save(data, file)
        except RuntimeError as error:
            # A full disk comes second: torch finds its file shorter than it thought, because a write has failed before.
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None


def load_tensors(path: Path) -> Any:
    """Load tensors and plain values; a file that holds anything else is refused, and nothing in it runs."""
    try:
        return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        message = (
            f"expected a whole file of tensors and plain values, got another ({type(error).__name__}). Nothing of it was used"
        )
        raise UsageError(f"{path}: {message}: it may be damaged, or hold code.") from error


def load_weights(module: torch.nn.Module, path: Path) -> None:
    """Load a bare state dict into a module that it fits."""
    weights = load_tensors(path)
    refuse_misfit(weights, module.state_dict(), path=path)
    module.load_state_dict(weights)


def refuse_misfit(weights: Any, expected: Mapping[str, Any], *, path: Path) -> None:
    """Refuse weights whose names or shapes are not those of the model."""
    shapes = {name: getattr(tensor, "shape", None) for name, tensor in expected.items()}
    got = {name: getattr(tensor, "shape", None) for name, tensor in weights.items()} if isinstance(weights, Mapping) else {}
    if got != shapes:
        wrong = next(name for name in (*shapes, *got) if got.get(name) != shapes.get(name))
        raise UsageError(f"{path}: expected the weights of the spec's model, got others: {wrong!r} doesn't fit.")


class DurableCheckpoints(TorchCheckpointIO):
    """Lightning's own goes through TMPDIR, which on another device is a copy that a kill cuts short."""

    def __init__(self, module: torch.nn.Module | None = None) -> None:
        """Refuse checkpoints that don't fit `module`, where it is given."""
        self._module = module

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any | None = None) -> None:
        """Save a checkpoint, whole or not at all."""
        save_tensors(checkpoint, Path(path))

    def load_checkpoint(self, path: _PATH, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Load a checkpoint; nothing in it can run."""
        checkpoint: dict[str, Any] = load_tensors(Path(path))
        own = checkpoint["callbacks"].get("DPCallback") if _holds(checkpoint, _PARTS) else None
        if not _holds(own, _CALLBACK_PARTS):
            raise UsageError(f"{path}: expected the checkpoint of a run, got another file of tensors.")
        if self._module is not None:
            refuse_misfit(checkpoint["state_dict"], self._module.state_dict(), path=Path(path))
        return checkpoint


def _holds(data: Any, parts: Mapping[str, type]) -> bool:
    return isinstance(data, dict) and all(isinstance(data.get(name), kind) for name, kind in parts.items())


@contextmanager
def restoring(path: Path | None) -> Iterator[None]:
    """Name the checkpoint where a Trainer fails in taking it up: its parts are of the right kind, but don't fit the run."""
    try:
        yield
    except DppipeError:
        raise
    except Exception as error:
        if path is None or not any(frame.name in _RESTORES for frame in traceback.extract_tb(error.__traceback__)):
            raise
        raise UsageError(
            f"{path}: expected a checkpoint that fits the run, got one that doesn't ({type(error).__name__})."
        ) from error
