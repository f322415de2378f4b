"""Files of tensors and plain values, which are whole or not there.

They are written under a temporary name, synced, then renamed. Reading one never runs code that it
holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dppipe.errors import UsageError
from dppipe.runs.directory import replacing


def save_tensors(data: Any, path: Path) -> None:
    """Save tensors and plain values, whole or not at all."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save(data, file)
        except RuntimeError as error:
            # On a full disk torch finds its file shorter than expected; the write that failed
            # before is the context of that error.
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None


def load_tensors(path: Path) -> Any:
    """Load tensors and plain values.

    A file that contains anything else is refused, and nothing in it runs.
    """
    try:
        return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise UsageError(
            f"{path}: expected a whole file of tensors and plain values, got another "
            f"({type(error).__name__}). Nothing of it was used: it may be damaged, or contain code."
        ) from error


def load_weights(module: torch.nn.Module, path: Path) -> None:
    """Load a bare state dict into a module that it fits."""
    weights = load_tensors(path)
    refuse_misfit(weights, module.state_dict(), path=path)
    module.load_state_dict(weights)


def refuse_misfit(
    weights: Any, expected: Mapping[str, Any], *, path: Path, place: str = ""
) -> None:
    """Refuse weights whose names or shapes are not those of the model.

    `place` is the option that names the file, where there is one.
    """
    shapes = _shapes(expected)
    got = _shapes(weights) if isinstance(weights, Mapping) else {}
    if got != shapes:
        wrong = next(name for name in (*shapes, *got) if got.get(name) != shapes.get(name))
        where = f"{place}: {path}" if place else path
        raise UsageError(
            f"{where}: expected the weights of the spec's model, got others: {wrong!r} doesn't fit."
        )


def _shapes(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: getattr(tensor, "shape", None) for name, tensor in tensors.items()}
