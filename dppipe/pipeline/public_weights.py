"""Loading a file of public weights into a network that has just been built."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dppipe.errors import UsageError
from dppipe.pipeline.name_patterns import listed, matches, refuse_idle
from dppipe.runs.weight_files import read_weights


def load_public(network: nn.Module, path: Path, *, fresh: Collection[str]) -> None:
    """Load the weights of a file; parameters that match `fresh` keep their initial values.

    Names, shapes and numbers are checked first: nothing is loaded from a file that doesn't fit.
    """
    state = network.state_dict()
    refuse_idle(fresh, state, key="fresh", what="parameter")
    found, _ = read_weights(path, place="model.pretrained")
    weights = _without(found, fresh)
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
