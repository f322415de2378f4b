"""The engine's check of a spec's own model, on made-up input: no record is read and nothing is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from dppipe.class_path import find_users_line
from dppipe.engine import Engine
from dppipe.engine.check import check_engine
from dppipe.errors import DppipeError, UsageError
from dppipe.training.callback import CHECKED_EXAMPLES
from dppipe.training.networks import network_and_loss, silenced
from dppipe.training.run import build_module
from dppipe.training.seeding import seed_weights

if TYPE_CHECKING:
    from dppipe.engine.report import EngineReport
    from dppipe.spec.spec import Spec

_LONGEST = 300
"""Characters of an error's text that are shown."""


def examine(spec: Spec) -> EngineReport:
    """Build a spec's model, compare the engine with a one-example loop on it, and say how each parameter is treated."""
    seed_weights(spec.seed)
    module = build_module(spec, steps=1)
    network, per_sample_loss = network_and_loss(module)
    batch = spec.data.synthetic(CHECKED_EXAMPLES)
    try:
        with silenced(module), Engine(network, per_sample_loss, spec.clipping) as engine:
            return check_engine(engine, batch)
    except DppipeError:
        raise
    except Exception as error:
        if (place := find_users_line(error)) is None:
            raise
        raise UsageError(f"{place}: expected code that takes {_described(tree_leaves(batch)[0])}, got {_said(error)}.") from error


def _described(inputs: Any) -> str:
    if not isinstance(inputs, Tensor):
        return "made-up inputs"
    return f"made-up inputs of {str(inputs.dtype).removeprefix('torch.')} {list(inputs.shape)}"


def _said(error: Exception) -> str:
    """Give an error with its text: no record was read, so none can be in it."""
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text[:_LONGEST]}" if text else type(error).__name__
