"""The exact fallback: a module without rules is evaluated row by row with `torch.func`, the rest of the model is not.

Every row gets its own copy of the module's weights (no memory is taken for it) and the module runs under `vmap`, or in a loop
where it can't. Autograd then gives the gradient of each copy, which is the weight's gradient of that row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from dppipe.engine.rules.base import Unhandled
from dppipe.engine.tape.functional import VMAP_REFUSALS, quiet_vmap
from dppipe.engine.tape.layout import Layout, ModuleRows
from dppipe.engine.tape.tape import Tape


class _Body(nn.Module):
    """A module's own forward, so that `functional_call` can put other weights into the module."""

    def __init__(self, module: nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.module = module
        self.original = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.original(*args, **kwargs)


class RowByRow:
    """The replaced forward of one module."""

    def __init__(
        self, module: nn.Module, rows: ModuleRows, tape: Callable[[], Tape | None]
    ) -> None:
        self._body = _Body(module, module.forward)
        self._rows = rows
        self._tape = tape
        self._vmap = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate row by row while a tape runs, and as ever otherwise."""
        tape = self._tape()
        if tape is None or not tape.listening:
            return self._body(*args, **kwargs)
        with tape.paused():
            return self._evaluate(tape, args, kwargs)

    def _evaluate(self, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values, inputs = tree_flatten((args, kwargs))
        if len(values) != len(self._rows.inputs):
            raise Unhandled("a module that is called with changing arguments")
        at = [i for i, axis in enumerate(self._rows.inputs) if axis is not None]
        axes = [axis for axis in self._rows.inputs if axis is not None]
        leaves = {
            f"module.{name}": tape.leaf(weight, axis=0, dims=weight.dim() + 1)
            for name, weight in self._body.module.named_parameters()
            if weight in tape.weights
        }
        outputs: list[Any] = []

        def one(weights: dict[str, Tensor], row: list[Tensor]) -> tuple[Tensor, ...]:
            filled = list(values)
            for i, axis, value in zip(at, axes, row, strict=True):
                filled[i] = value.unsqueeze(axis)
            result, spec = tree_flatten(
                torch.func.functional_call(self._body, weights, *tree_unflatten(filled, inputs))
            )
            outputs[:] = [spec]
            return tuple(
                value.squeeze(axis) for value, axis in zip(result, self._rows.outputs, strict=True)
            )

        results = self._each(one, leaves, [values[i] for i in at], axes)
        return tree_unflatten(list(results), outputs[0])

    def _each(
        self,
        one: Callable[..., tuple[Tensor, ...]],
        leaves: dict[str, Tensor],
        inputs: list[Tensor],
        axes: list[int],
    ) -> Any:
        outputs = tuple(axis for axis in self._rows.outputs if axis is not None)
        if self._vmap:
            try:
                mapped = torch.func.vmap(
                    one, in_dims=(0, axes), out_dims=outputs, randomness="different"
                )
                with quiet_vmap():
                    return mapped(leaves, inputs)
            except VMAP_REFUSALS:
                self._vmap = False
        rows = [
            one(
                {name: leaf[i] for name, leaf in leaves.items()},
                [x.select(axis, i) for x, axis in zip(inputs, axes, strict=True)],
            )
            for i in range(inputs[0].shape[axes[0]])
        ]
        return [
            torch.stack(values, axis)
            for values, axis in zip(zip(*rows, strict=True), outputs, strict=True)
        ]


@contextmanager
def row_by_row(model: nn.Module, layout: Layout, tape: Callable[[], Tape | None]) -> Iterator[None]:
    """Replace the forward of the layout's fallback modules for a while; their classes and state stay as they are."""
    modules = [(model.get_submodule(path), layout.modules[path]) for path in layout.fallback]
    before = [module.__dict__.get("forward") for module, _ in modules]
    for module, rows in modules:
        module.forward = RowByRow(module, rows, tape)
    try:
        yield
    finally:
        for (module, _), forward in zip(modules, before, strict=True):
            del module.forward
            if forward is not None:
                module.forward = forward
