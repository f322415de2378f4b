"""The rehearsal: user code is tried on made-up rows before the first charge.

A mistake in a model, loss or `training_step` shows here, with its text, since no record is
involved. So it is never taken for a broken record later. The engine is checked against a one-row
loop, and rows against each other (`dppipe.engine.checks.check`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from dppipe.class_path import find_users_line
from dppipe.engine.checks.check import check_engine
from dppipe.errors import RECORD_ERRORS, DppipeError, UsageError
from dppipe.learners.records.faults import is_machine_fault
from dppipe.text_layout import shorten

if TYPE_CHECKING:
    from dppipe.engine import Engine
    from dppipe.engine.checks.report import EngineReport

CHECKED_EXAMPLES = 32
"""How many examples are made up; a few that differ are checked before the first charge."""
_LONGEST = 300
"""Characters of an error's text that are shown."""


def rehearse(engine: Engine, batch: Any) -> EngineReport:
    """Check the engine on made-up rows; a mistake in user code is shown with its place and text."""
    with naming_mistakes(batch):
        report = check_engine(engine, batch)
    engine.gradients.settle()
    return report


@contextmanager
def naming_mistakes(batch: Any) -> Iterator[None]:
    """Turn what user code raises on made-up rows into an error that says where and on what."""
    try:
        yield
    except DppipeError:
        raise
    except RECORD_ERRORS as error:
        if is_machine_fault(error):
            raise
        place = find_users_line(error) or "model"
        inputs = _described(tree_leaves(batch)[0])
        message = f"{place}: expected code that takes {inputs}, got {_said(error)}."
        raise UsageError(message) from error


def _described(inputs: Any) -> str:
    if not isinstance(inputs, Tensor):
        return "made-up inputs"
    kind = str(inputs.dtype).removeprefix("torch.")
    sizes = ", ".join(["n", *map(str, inputs.shape[1:])])  # as many rows as the check likes
    return f"made-up inputs of {kind} [{sizes}]"


def _said(error: BaseException) -> str:
    """Return an error's type and text: no record was read, so none can be in it."""
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {shorten(text, _LONGEST)}" if text else type(error).__name__
