"""A run's weights as a safetensors file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from dppipe.errors import UsageError


def safetensors_bytes(state: Mapping[str, Any], *, metadata: Mapping[str, str]) -> bytes:
    """Return the file of a state dict; `safetensors.torch.load_file` reads it.

    Args:
        state: The weights by their own names; tensors that share memory are written apart.
        metadata: Names and texts for the file's header.
    """
    try:
        from safetensors.torch import save
    except ImportError:
        raise UsageError(
            "--format safetensors: expected the package safetensors, got none. Install "
            "dppipe[safetensors]."
        ) from None
    tensors: dict[str, Tensor] = {}
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise UsageError(
                f"--format safetensors: expected tensors alone, got another value at {name!r}."
            )
        tensors[name] = value.detach().cpu().contiguous().clone()
    return save(tensors, dict(metadata))
