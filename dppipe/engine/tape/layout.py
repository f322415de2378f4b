"""The layout: where the rows stand in every use of a weight, and which modules are evaluated row by row.

It is found by running the model on two and on three copies of one row: the dimension that grows from 2 to 3 counts the rows,
whatever other sizes coincide later. Then a trial of the tape itself shows whether every use has a rule; around each that has
none, the smallest module with rows in and out goes to `dppipe.engine.tape.fallback`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.checkpoint import CheckpointError

from dppipe.engine.contracts import PerSampleLoss
from dppipe.engine.rules import RULE_OF
from dppipe.engine.rules.base import Unhandled
from dppipe.engine.tape.tape import TRANSPOSES, UNKNOWN, Call, Gradient, Key, Tape, make_key
from dppipe.engine.tape.weights import Weights, constants_of, tensors_in

Axes = tuple[int | None, ...]
"""For each leaf of a module's inputs or outputs the dimension that counts rows."""


@dataclass(frozen=True)
class ModuleRows:
    """Where the rows stand in what a module takes and gives."""

    inputs: Axes
    outputs: Axes

    @property
    def complete(self) -> bool:
        """Whether every output has rows, so that the module can be evaluated row by row."""
        return (
            bool(self.outputs)
            and None not in self.outputs
            and any(axis is not None for axis in self.inputs)
        )


@dataclass
class Layout:
    """How the engine treats each use of a weight."""

    axes: dict[Key, int | None] = field(default_factory=dict)
    modules: dict[str, ModuleRows] = field(default_factory=dict)
    fallback: dict[str, str] = field(default_factory=dict)
    """Paths of modules that are evaluated row by row, each with the reason."""
    functional: str | None = None
    """Why the whole model is evaluated row by row, where it is."""


LOOKS = 6
"""How often a model is run to see a layer that it skips at times."""


class Probe(Tape):
    """A tape that only looks: it notes shapes and changes nothing."""

    def __init__(self, weights: Weights, *, rows: int) -> None:
        super().__init__(weights, rows=rows, axes={})
        self.shapes: dict[Key, list[tuple[int, ...]]] = {}

    def dispatch(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Note the shape a rule looks at, and compute."""
        used = self.weights.among((args, kwargs))
        if not used or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        key = make_key(func, used, (args, kwargs))
        rule = RULE_OF.get(func)
        if rule is None or self.weights.alone((args, kwargs)):
            result = func(*args, **kwargs)
            if self.weights.alone((args, kwargs)):
                self.weights.derive(result, used, transposed=func in TRANSPOSES)
        else:
            try:
                result = rule.answer(Call(self, key, UNKNOWN, self.rows), *args, **kwargs)
            except Unhandled:
                result = func(*args, **kwargs)
        if rule is not None:
            looked_at = (
                result
                if rule.looks_at == "output"
                else [t for t in tensors_in((args, kwargs)) if t not in self.weights]
            )
            self.shapes.setdefault(key, []).extend(
                tuple(tensor.shape) for tensor in list(tensors_in(looked_at))[:1]
            )
        return result

    def tap(self, output: Tensor, saved: tuple[Tensor, ...], gradients: Gradient) -> Tensor:
        """Give the output back."""
        return output

    def leaf(self, weight: Tensor, *, axis: int, dims: int) -> Tensor:
        """Give the weight itself."""
        return weight


def make_layout(
    model: nn.Module,
    per_sample_loss: PerSampleLoss,
    batch: Any,
    *,
    parameters: Mapping[str, Tensor],
    trial: Callable[[Layout, Any], None],
    known: Layout | None = None,
) -> Layout:
    """Find out how to treat a model from the shapes and types of one row; `trial` runs a layout on a few rows.

    A model may skip layers by chance, so what a trial meets for the first time is looked for again; `known` is added to.
    """
    layout, looks = known or Layout(), 0
    while layout.functional is None:
        with watch_modules(model) as watched:
            try:
                trial(layout, copies_of_row(batch, 3))
                break
            except CheckpointError:
                layout.functional = "activation checkpointing"
            except Unhandled as problem:
                unseen, paths, reason = (
                    problem.unseen,
                    watched.stack or _owners(problem),
                    str(problem),
                )
        if layout.functional is None and unseen and looks < LOOKS:
            looks += 1
            _look(layout, model, per_sample_loss, batch, parameters)
        elif layout.functional is None:
            _fall_back(layout, paths, reason=reason)
    return layout


def _look(
    layout: Layout,
    model: nn.Module,
    per_sample_loss: PerSampleLoss,
    batch: Any,
    parameters: Mapping[str, Tensor],
) -> None:
    """Run the model on two and on three copies of a row, and add where the rows stand to the layout."""
    runs = []
    for rows in (2, 3):
        probe = Probe(Weights(constants_of(model), parameters), rows=rows)
        with torch.enable_grad(), watch_modules(model) as watched, probe:
            per_sample_loss(model, copies_of_row(batch, rows))
        runs.append((probe.shapes, watched.calls))
    (two, calls_two), (three, calls_three) = runs
    layout.axes |= {key: _common(two[key], three[key]) for key in two if key in three}
    layout.modules |= {
        path: _module_rows(calls_two[path], calls_three[path])
        for path in calls_two
        if path in calls_three
    }


def _fall_back(layout: Layout, paths: list[str], *, reason: str) -> None:
    """Put the innermost module that can be under the fallback, or the whole model."""
    for path in reversed(paths):
        if path not in layout.fallback and path in layout.modules and layout.modules[path].complete:
            layout.fallback[path] = reason
            return
    layout.functional = reason


def _owners(problem: Unhandled) -> list[str]:
    """Give the paths from the root to the module that owns the first parameter of a problem without a place."""
    parts = problem.names[0].split(".")[:-1] if problem.names else []
    return [".".join(parts[:i]) for i in range(len(parts) + 1)]


class Watched:
    """The module calls of one forward pass; after an error `stack` tells where it happened."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.calls: dict[str, list[tuple[list[Any], list[Any]]]] = {}


@contextmanager
def watch_modules(model: nn.Module) -> Iterator[Watched]:
    """Note the inputs' and outputs' shapes of every module call for a while."""
    watched = Watched()
    handles = []
    for path, module in model.named_modules():

        def enter(module: nn.Module, args: Any, kwargs: Any, path: str = path) -> None:
            watched.stack.append(path)

        def leave(module: nn.Module, args: Any, kwargs: Any, output: Any, path: str = path) -> None:
            watched.stack.pop()
            watched.calls.setdefault(path, []).append((_shapes((args, kwargs)), _shapes(output)))

        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave, with_kwargs=True))
    try:
        yield watched
    finally:
        for handle in handles:
            handle.remove()


def copies_of_row(batch: Any, rows: int) -> Any:
    """Give a batch that is a few copies of the first row."""
    return tree_map(
        lambda leaf: (
            leaf[:1].repeat_interleave(rows, 0) if isinstance(leaf, Tensor) and leaf.dim() else leaf
        ),
        batch,
    )


def _shapes(values: Any) -> list[Any]:
    return [
        tuple(leaf.shape) if isinstance(leaf, Tensor) else None for leaf in tree_flatten(values)[0]
    ]


def _axis(two: tuple[int, ...] | None, three: tuple[int, ...] | None) -> int | None:
    """Give the one dimension that grew from 2 to 3 while all others stayed."""
    if two is None or three is None or len(two) != len(three):
        return None
    grown = [i for i, sizes in enumerate(zip(two, three, strict=True)) if sizes[0] != sizes[1]]
    return grown[0] if len(grown) == 1 and (two[grown[0]], three[grown[0]]) == (2, 3) else None


def _common(two: list[tuple[int, ...]], three: list[tuple[int, ...]]) -> int | None:
    """Give the axis on which all occurrences of a call agree."""
    axes = {_axis(*shapes) for shapes in zip(two, three, strict=False)}
    return axes.pop() if len(axes) == 1 else None


def _module_rows(
    two: list[tuple[list[Any], list[Any]]], three: list[tuple[list[Any], list[Any]]]
) -> ModuleRows:
    found = {
        tuple(
            tuple(_axis(*shapes) for shapes in zip(left, right, strict=False))
            for left, right in zip(*calls, strict=True)
        )
        for calls in zip(two, three, strict=False)
    }
    return ModuleRows(*found.pop()) if len(found) == 1 else ModuleRows((), ())
