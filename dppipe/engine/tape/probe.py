"""Forward passes that are only observed: the shapes of every call of a rule and of every module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from dppipe.engine.rules import RULE_OF
from dppipe.engine.rules.base import Rule, Unhandled
from dppipe.engine.tape.keys import TRANSPOSES, Key, make_key
from dppipe.engine.tape.tape import UNKNOWN, Call, Gradient, Tape
from dppipe.engine.tape.weights import Weights, tensors_in

Shape = tuple[int, ...]


class Probe(Tape):
    """A tape that only notes shapes and changes nothing."""

    def __init__(self, weights: Weights, *, rows: int) -> None:
        super().__init__(weights, rows=rows, axes={})
        self.shapes: dict[Key, list[Shape]] = {}

    def dispatch(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Compute the call's result and note the shape that its rule looks at."""
        tensors = tensors_in((args, kwargs))
        used = self.weights.among(tensors)
        if not used or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        key = make_key(func, used, tensors)
        rule = RULE_OF.get(func)
        alone = self.weights.alone(tensors)
        if rule is None or alone:
            result = func(*args, **kwargs)
            if alone:
                self.weights.derive(result, used, transposed=func in TRANSPOSES)
        else:
            try:
                result = rule.answer(Call(self, key, UNKNOWN, self.rows), *args, **kwargs)
            except Unhandled:
                result = func(*args, **kwargs)
        if rule is not None:
            self._note_shape(rule, key, (args, kwargs), result)
        return result

    def _note_shape(self, rule: Rule, key: Key, arguments: Any, result: Any) -> None:
        tensors = tensors_in(result if rule.looks_at == "output" else arguments)
        if rule.looks_at == "input":
            tensors = [tensor for tensor in tensors if tensor not in self.weights]
        shapes = self.shapes.setdefault(key, [])
        if tensors:
            shapes.append(tuple(tensors[0].shape))

    def tap(self, output: Tensor, saved: tuple[Tensor, ...], gradients: Gradient) -> Tensor:
        """Return the output as it is."""
        return output

    def leaf(self, weight: Tensor, *, axis: int, dims: int) -> Tensor:
        """Return the weight itself."""
        return weight


Shapes = list[Shape | None]
"""The shape of each leaf of nested values; None for a leaf that isn't a tensor."""


class Watched:
    """The module calls of one forward pass; after an error, `stack` shows where it happened."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        """The paths of the modules that are running, outermost first."""
        self.calls: dict[str, list[tuple[Shapes, Shapes]]] = {}
        """For each path, the shapes of the inputs and of the outputs of each call."""


@contextmanager
def watch_modules(model: nn.Module) -> Iterator[Watched]:
    """Note the shapes of the inputs and outputs of every module call in the block."""
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


def _shapes(values: Any) -> Shapes:
    shapes: Shapes = []
    for leaf in tree_flatten(values)[0]:
        shapes.append(tuple(leaf.shape) if isinstance(leaf, Tensor) else None)
    return shapes
