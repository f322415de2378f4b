"""The layout: which dimension counts the rows in every use of a weight, and what has no rule.

To find it, the model runs on two and on three copies of one row: the dimension that grows from 2 to
3 counts the rows, whatever other sizes coincide later. Then a trial of the tape itself shows
whether every use has a rule. Around each use that has none, the smallest module with rows in its
inputs and outputs is evaluated row by row (`dppipe.engine.tape.fallback`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import CheckpointError

from dppipe.engine.contracts import PerSampleLoss
from dppipe.engine.rules.base import Unhandled
from dppipe.engine.tape.keys import Key
from dppipe.engine.tape.probe import Probe, Shape, Shapes, watch_modules
from dppipe.engine.tape.weights import Weights, constants_of

Axes = tuple[int | None, ...]
"""For each leaf of a module's inputs or outputs, the dimension that counts rows."""
MOST_PROBES = 6
"""How often a model is run to find the layers that it skips at times."""


@dataclass(frozen=True)
class ModuleRows:
    """Which dimensions of a module's inputs and outputs count rows."""

    inputs: Axes
    outputs: Axes

    @property
    def complete(self) -> bool:
        """Whether every output has rows, so that the module can be evaluated row by row."""
        if not self.outputs or None in self.outputs:
            return False
        return any(axis is not None for axis in self.inputs)


@dataclass
class Layout:
    """How the engine treats each use of a weight."""

    axes: dict[Key, int | None] = field(default_factory=dict)
    """The dimension that counts rows in each call of a rule; None where there is none."""
    modules: dict[str, ModuleRows] = field(default_factory=dict)
    fallback: dict[str, str] = field(default_factory=dict)
    """Paths of modules that are evaluated row by row, each with the reason."""
    functional: str | None = None
    """The reason why the whole model is evaluated row by row, if it is."""


def make_layout(
    model: nn.Module,
    per_sample_loss: PerSampleLoss,
    batch: Any,
    *,
    parameters: Mapping[str, Tensor],
    trial: Callable[[Layout, Any], None],
    known: Layout | None = None,
) -> Layout:
    """Find out how to treat a model, from the shapes and types of one row.

    A model may skip layers at random, so calls that a trial meets for the first time are probed for
    again.

    Args:
        trial: Runs the tape on a few rows by a layout.
        known: A layout that is extended in place.
    """
    layout = known or Layout()
    probes = 0
    while layout.functional is None:
        with watch_modules(model) as watched:
            try:
                trial(layout, copies_of_row(batch, 3))
                break
            except CheckpointError:
                layout.functional = "activation checkpointing"
                break
            except Unhandled as problem:
                unseen = problem.unseen
                paths = watched.stack or _owners(problem)
                reason = str(problem)
        if unseen and probes < MOST_PROBES:
            probes += 1
            _probe(layout, model, per_sample_loss, batch, parameters)
        else:
            _fall_back(layout, paths, reason=reason)
    return layout


def _probe(
    layout: Layout,
    model: nn.Module,
    per_sample_loss: PerSampleLoss,
    batch: Any,
    parameters: Mapping[str, Tensor],
) -> None:
    """Run the model on two and on three copies of a row, and add the dimensions that grew."""
    runs = []
    for rows in (2, 3):
        probe = Probe(Weights(constants_of(model), parameters), rows=rows)
        with torch.enable_grad(), watch_modules(model) as watched, probe:
            per_sample_loss(model, copies_of_row(batch, rows))
        runs.append((probe.shapes, watched.calls))
    (two, calls_two), (three, calls_three) = runs
    for key in two:
        if key in three:
            layout.axes[key] = _common_axis(two[key], three[key])
    for path in calls_two:
        if path in calls_three:
            layout.modules[path] = _module_rows(calls_two[path], calls_three[path])


def _fall_back(layout: Layout, paths: list[str], *, reason: str) -> None:
    """Choose the innermost module that can be evaluated row by row, or the whole model."""
    for path in reversed(paths):
        if path not in layout.fallback and path in layout.modules and layout.modules[path].complete:
            layout.fallback[path] = reason
            return
    layout.functional = reason


def _owners(problem: Unhandled) -> list[str]:
    """Return the paths from the root to the module that owns the problem's first parameter."""
    parts = problem.names[0].split(".")[:-1] if problem.names else []
    return [".".join(parts[:i]) for i in range(len(parts) + 1)]


def copies_of_row(batch: Any, rows: int) -> Any:
    """Return a batch of this many copies of the first row."""

    def repeat(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and leaf.dim():
            return leaf[:1].repeat_interleave(rows, 0)
        return leaf

    return tree_map(repeat, batch)


def _axis(two: Shape | None, three: Shape | None) -> int | None:
    """Return the one dimension that grew from 2 to 3, if no other changed."""
    if two is None or three is None or len(two) != len(three):
        return None
    changed = [i for i in range(len(two)) if two[i] != three[i]]
    if len(changed) != 1:
        return None
    axis = changed[0]
    return axis if (two[axis], three[axis]) == (2, 3) else None


def _common_axis(two: list[Shape], three: list[Shape]) -> int | None:
    """Return the axis on which all occurrences of a call agree."""
    axes = set(map(_axis, two, three))
    return axes.pop() if len(axes) == 1 else None


def _module_rows(
    two: list[tuple[Shapes, Shapes]], three: list[tuple[Shapes, Shapes]]
) -> ModuleRows:
    """Return the dimensions on which all calls of a module agree; none where they don't."""
    found = set()
    for (inputs_two, outputs_two), (inputs_three, outputs_three) in zip(two, three, strict=False):
        inputs = tuple(map(_axis, inputs_two, inputs_three))
        outputs = tuple(map(_axis, outputs_two, outputs_three))
        found.add(ModuleRows(inputs, outputs))
    return found.pop() if len(found) == 1 else ModuleRows((), ())
