"""Files of weights from outside: named tensors, read without running anything that a file holds."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dppipe.errors import UsageError

_ADVICE = "Give a .safetensors file, or what torch.save wrote of a state dict."


def read_weights(path: Path, *, place: str) -> tuple[Mapping[str, Tensor], bytes]:
    """Read tensors by their names; return them with the bytes of the file.

    A file that contains anything else is refused, and nothing in it runs.

    Args:
        path: A .safetensors file, or a state dict that torch.save wrote.
        place: The option that names the file, for messages.
    """
    expected = f"{place}: expected a file of weights, got {path}"
    if not path.is_file():
        raise UsageError(f"{expected}, which isn't there. Fix the path.")
    try:
        data = path.read_bytes()
        weights: Mapping[str, Tensor] = _tensors(data, suffix=path.suffix)
    except ImportError as error:
        raise UsageError(
            f"{expected}, which needs safetensors. Install dppipe[safetensors], or save a state "
            "dict."
        ) from error
    except Exception as error:
        raise UsageError(
            f"{expected}, which can't be read as one ({type(error).__name__}). {_ADVICE}"
        ) from error
    named = isinstance(weights, Mapping)
    if not named or not all(isinstance(value, Tensor) for value in weights.values()):
        raise UsageError(
            f"{expected}, which contains something other than named tensors. {_ADVICE}"
        )
    return weights, data


def _tensors(data: bytes, *, suffix: str) -> Any:
    if suffix == ".safetensors":
        from safetensors.torch import load

        return load(data)
    # Warnings are ignored: a fault of the file becomes one error.
    with warnings.catch_warnings(action="ignore"):
        return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
