"""The exact fallback: a module without rules is evaluated row by row, the rest of the model isn't.

Every row gets its own copy of the module's weights, as a view that takes no memory. The module runs
under `torch.func.vmap`, or in a loop where `vmap` fails. Autograd then computes the gradient of
each copy, which is the weight's gradient of that row.
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
        self,
        module: nn.Module,
        rows: ModuleRows,
        tape: Callable[[], Tape | None],
        settled: Callable[[], bool],
    ) -> None:
        self._body = _Body(module, module.forward)
        self._rows = rows
        self._tape = tape
        self._settled = settled
        self._vmap = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate row by row while a tape runs, and as usual otherwise."""
        tape = self._tape()
        if tape is None or not tape.listening:
            return self._body(*args, **kwargs)
        with tape.paused():
            return self._evaluate(tape, args, kwargs)

    def _evaluate(self, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values, input_structure = tree_flatten((args, kwargs))
        if len(values) != len(self._rows.inputs):
            raise Unhandled("a module that is called with changing arguments")
        axis_of = {i: axis for i, axis in enumerate(self._rows.inputs) if axis is not None}
        leaves = {}
        for name, weight in self._body.module.named_parameters():
            if weight in tape.weights:
                leaves[f"module.{name}"] = tape.leaf(weight, axis=0, dims=weight.dim() + 1)
        output_structure: list[Any] = []

        def evaluate_row(weights: dict[str, Tensor], row: list[Tensor]) -> tuple[Tensor, ...]:
            filled = list(values)
            for (i, axis), value in zip(axis_of.items(), row, strict=True):
                filled[i] = value.unsqueeze(axis)
            arguments = tree_unflatten(filled, input_structure)
            result = torch.func.functional_call(self._body, weights, *arguments)
            outputs, structure = tree_flatten(result)
            output_structure[:] = [structure]
            pairs = zip(outputs, self._rows.outputs, strict=True)
            return tuple(value.squeeze(axis) for value, axis in pairs)

        inputs = [values[i] for i in axis_of]
        results = self._each(evaluate_row, leaves, inputs, list(axis_of.values()))
        return tree_unflatten(list(results), output_structure[0])

    def _each(
        self,
        evaluate_row: Callable[..., tuple[Tensor, ...]],
        leaves: dict[str, Tensor],
        inputs: list[Tensor],
        axes: list[int],
    ) -> Any:
        output_axes = tuple(axis for axis in self._rows.outputs if axis is not None)
        if self._vmap:
            try:
                mapped = torch.func.vmap(
                    evaluate_row, in_dims=(0, axes), out_dims=output_axes, randomness="different"
                )
                with quiet_vmap():
                    return mapped(leaves, inputs)
            except VMAP_REFUSALS:
                self._vmap = self._settled()
        rows = []
        for i in range(inputs[0].shape[axes[0]]):
            weights = {name: leaf[i] for name, leaf in leaves.items()}
            row = [x.select(axis, i) for x, axis in zip(inputs, axes, strict=True)]
            rows.append(evaluate_row(weights, row))
        columns = zip(*rows, strict=True)
        pairs = zip(columns, output_axes, strict=True)
        return [torch.stack(column, axis) for column, axis in pairs]


@contextmanager
def row_by_row(
    model: nn.Module,
    layout: Layout,
    tape: Callable[[], Tape | None],
    *,
    settled: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Replace the forward of the layout's fallback modules in the block, then restore it.

    Once `settled` says so, errors no longer change how later rows are evaluated: records may cause
    them.
    """
    before = []
    for path in layout.fallback:
        module = model.get_submodule(path)
        before.append((module, module.__dict__.get("forward")))
        module.forward = RowByRow(module, layout.modules[path], tape, settled)
    try:
        yield
    finally:
        for module, forward in before:
            del module.forward
            if forward is not None:
                module.forward = forward
