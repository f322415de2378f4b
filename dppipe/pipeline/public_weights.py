"""Loading a file of public weights into a network that has just been built."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dppipe.errors import UsageError
from dppipe.pipeline.name_patterns import listed, matches, refuse_idle

_ADVICE = "Give a .safetensors file, or what torch.save wrote of a state dict."


def load_public(network: nn.Module, path: Path, *, fresh: Collection[str]) -> None:
    """Load the weights of a file; parameters that match `fresh` keep their initial values.

    Names, shapes and numbers are checked first: nothing is loaded from a file that doesn't fit.
    """
    state = network.state_dict()
    refuse_idle(fresh, state, key="fresh", what="parameter")
    weights = _without(_read(path), fresh)
    expected = _without(state, fresh)
    _refuse_other_names(weights, expected, path=path)
    _refuse_other_values(weights, expected, path=path)
    network.load_state_dict(state | weights)


def _without(tensors: Mapping[str, Tensor], patterns: Collection[str]) -> dict[str, Tensor]:
    return {name: value for name, value in tensors.items() if not matches(name, patterns)}


def _refuse_other_names(
    weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, path: Path
) -> None:
    missing = [name for name in expected if name not in weights]
    unknown = [name for name in weights if name not in expected]
    faults = []
    if missing:
        faults.append(f"without {listed(missing)}")
    if unknown:
        faults.append(f"with {listed(unknown)}")
    if faults:
        raise UsageError(
            f"model.pretrained: expected the model's own names in {path}, got a file "
            f"{' and '.join(faults)}."
        )


def _refuse_other_values(
    weights: Mapping[str, Tensor], expected: Mapping[str, Any], *, path: Path
) -> None:
    misshapen = []
    broken = []
    for name, value in weights.items():
        if value.shape != getattr(expected[name], "shape", None):
            misshapen.append(name)
        if not value.isfinite().all():
            broken.append(name)
    if misshapen:
        raise UsageError(
            f"model.pretrained: expected the model's own shapes in {path}, got others at "
            f"{listed(misshapen)}."
        )
    if broken:
        raise UsageError(
            f"model.pretrained: expected finite numbers in {path}, got others at {listed(broken)}."
        )


def _read(path: Path) -> Mapping[str, Tensor]:
    """Read tensors by their names.

    A file that contains anything else is refused, and nothing in it runs.
    """
    place = f"model.pretrained: expected a file of weights, got {path}"
    if not path.is_file():
        raise UsageError(f"{place}, which isn't there. Fix the path.")
    try:
        weights: Mapping[str, Tensor] = _load(path)
    except ImportError as error:
        raise UsageError(
            f"{place}, which needs safetensors. Install dppipe[safetensors], or save a state dict."
        ) from error
    except Exception as error:
        raise UsageError(
            f"{place}, which can't be read as one ({type(error).__name__}). {_ADVICE}"
        ) from error
    named = isinstance(weights, Mapping)
    if not named or not all(isinstance(value, Tensor) for value in weights.values()):
        raise UsageError(f"{place}, which contains something other than named tensors. {_ADVICE}")
    return weights


def _load(path: Path) -> Any:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    # Warnings are ignored: a fault of the file becomes one error.
    with warnings.catch_warnings(action="ignore"):
        return torch.load(path, weights_only=True, map_location="cpu")
