"""The tape: it sees every use of a trainable parameter in a forward pass, in whichever module.

It is a torch function mode, so the user's module is neither wrapped nor changed.

- Forward: a call that uses a trainable parameter is answered by the rule of its function, on
  detached parameters. The rule taps the output.
- Backward: in the one backward pass each tap receives its output's gradient. From it the rule
  computes the parameter's gradients row by row.

Autograd itself computes no parameter gradient. If one reaches a parameter, the parameter was used
where no rule could see it; that is an error, never a silent omission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dppipe.engine.exact import exact
from dppipe.engine.gradients.forms import Dense, Gradients, combine
from dppipe.engine.rules import RULE_OF
from dppipe.engine.rules.base import Found, Unhandled
from dppipe.engine.tape.keys import TRANSPOSES, Key, make_key, name_of
from dppipe.engine.tape.tap import Tap
from dppipe.engine.tape.weights import Weights, tensors_in
from dppipe.engine.units import Units

UNKNOWN = -1
"""The axis of a call whose row dimension isn't known yet."""
Gradient = Callable[..., Found]
"""A rule's function `gradients(gradient of the output, *saved)`."""


class Tape(TorchFunctionMode):
    """The uses of weights in one forward pass and, after `backward`, their gradients row by row."""

    def __init__(
        self,
        weights: Weights,
        *,
        rows: int,
        axes: Mapping[Key, int | None],
        units: Units | None = None,
        kernels: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.weights = weights
        self.rows = rows
        self.units = units
        self.kernels = kernels or {}
        self.chosen: dict[str, str] = {}
        """The kernel of each parameter, where its rule had a choice."""
        self._axes = axes
        self._anchor = next(iter(weights.parameters.values())).new_zeros((), requires_grad=True)
        self._leaves: list[tuple[Tensor, Tensor, int]] = []
        self._found: dict[int, tuple[Tensor, list[Gradients]]] = {}
        self._paused = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a call of a torch function."""
        return self.dispatch(func, args, kwargs or {})

    def dispatch(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Answer by a rule where a weight is used; leave all other calls to torch."""
        if not self.listening:
            return func(*args, **kwargs)
        tensors = tensors_in(args)
        if kwargs:
            tensors += tensors_in(kwargs)
        used = self.weights.among(tensors)
        if not used:
            return func(*args, **kwargs)
        key = make_key(func, used, tensors)
        rule = RULE_OF.get(func)
        axis = self._axes.get(key)
        if rule is not None and axis is not None:
            return rule.answer(Call(self, key, axis, self.rows), *args, **kwargs)
        result = func(*args, **kwargs)
        if any(tensor.requires_grad for tensor in tensors_in(result)):
            if not self.weights.alone(tensors):
                raise Unhandled(
                    f"{name_of(func)} on {', '.join(key[1])}",
                    unseen=rule is not None and key not in self._axes,
                )
            self.weights.derive(result, used, transposed=func in TRANSPOSES)
        return result

    @property
    def listening(self) -> bool:
        """Whether uses of weights are recorded now."""
        return torch.is_grad_enabled() and not self._paused

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave all calls in the block to torch."""
        before = self._paused
        self._paused = True
        try:
            yield
        finally:
            self._paused = before

    def tap(self, output: Tensor, saved: tuple[Tensor, ...], gradients: Gradient) -> Tensor:
        """Return the output; its gradient goes to the rule in the backward pass."""
        shape = output.shape

        def receive(gradient: Tensor, *kept: Tensor) -> None:
            self.collect(gradients(gradient.view(shape), *kept))

        # Tapping a view in place would make autograd copy its gradient, so its base is tapped.
        base = output._base if output._is_view() else None
        whole = (
            base is not None
            and base.numel() == output.numel()
            and base.is_contiguous()
            and output.is_contiguous()
        )
        tapped: Tensor = Tap.apply(base if whole else output, self._anchor, receive, *saved)  # type: ignore[no-untyped-call]
        return tapped.view(shape) if whole else tapped

    def leaf(self, weight: Tensor, *, axis: int, dims: int) -> Tensor:  # -> [..., B, ...]
        """Return a weight expanded to a copy for every row, aligned for broadcasting.

        The copies' gradient is the weight's gradient row by row.
        """
        aligned = weight.detach().reshape(*[1] * (dims - weight.dim()), *weight.shape)
        if dims < weight.dim() or aligned.shape[axis] != 1:
            raise Unhandled(
                f"a parameter of shape {tuple(weight.shape)} that differs from row to row"
            )
        sizes = list(aligned.shape)
        sizes[axis] = self.rows
        leaf = aligned.expand(sizes).requires_grad_()
        self._leaves.append((weight, leaf, axis))
        return leaf

    def collect(self, found: Found) -> None:
        """Store the gradients that a rule yields.

        The rule computes here: outside autocast and in full float32, in whichever precision the
        model runs.
        """
        with exact(self._anchor.device), torch._C.DisableTorchFunction():
            for weight, gradients in found:
                if weight is not None:
                    self._add(weight, gradients)

    def _add(self, weight: Tensor, gradients: Gradients) -> None:
        """Store the gradients of one use.

        The norms of a first use are computed at once, while its factors are still in cache.
        """
        if self.units is not None:
            gradients = gradients.average(self.units)
        uses = self._found.setdefault(id(weight), (weight, []))[1]
        uses.append(gradients)
        if len(uses) == 1:
            _ = gradients.squares

    def backward(self, losses: Tensor) -> dict[str, Gradients]:  # [B]
        """Run the one backward pass and return the gradients of every used parameter."""
        if losses.requires_grad:
            parameters = self.weights.parameters
            inputs = [self._anchor, *parameters.values(), *[leaf for _, leaf, _ in self._leaves]]
            ones = torch.ones_like(losses)
            found = torch.autograd.grad(losses, inputs, ones, allow_unused=True)[1:]
            self._refuse_leaks(found)
            leaf_gradients = found[len(parameters) :]
            for (weight, _, axis), gradient in zip(self._leaves, leaf_gradients, strict=True):
                if gradient is not None:
                    rows = gradient.movedim(axis, 0).reshape(self.rows, *weight.shape)
                    self.collect([(weight, Dense(rows))])
        with exact(self._anchor.device):
            return self._by_parameter()

    def _refuse_leaks(self, found: tuple[Tensor | None, ...]) -> None:
        """Refuse gradients that autograd computed for a parameter itself."""
        pairs = zip(self.weights.parameters, found, strict=False)
        leaked = [name for name, gradient in pairs if gradient is not None]
        if leaked:
            raise Unhandled(f"a function out of sight on {', '.join(leaked)}", names=leaked)

    def _by_parameter(self) -> dict[str, Gradients]:
        found: dict[str, list[Gradients]] = {}
        collected = self._found
        self._found = {}
        self._leaves = []
        for tensor, uses in collected.values():
            for name, gradients in self.weights.pull_back(self.weights[tensor], combine(uses)):
                found.setdefault(name, []).append(gradients)
        return {name: combine(uses) for name, uses in found.items()}


@dataclass(frozen=True)
class Call:
    """One use of weights, as its rule sees it (`dppipe.engine.rules.base.Use`)."""

    tape: Tape
    key: Key
    axis: int
    rows: int

    @property
    def function(self) -> Callable[..., Any]:
        """The torch function that was called."""
        return self.key[0]

    def trains(self, weight: Tensor | None) -> bool:
        """Return whether an argument needs gradients."""
        return weight in self.tape.weights

    def untransposed(self, weight: Tensor) -> Tensor | None:
        """Return the matrix whose transpose a weight is, if it is a transpose."""
        return self.tape.weights[weight].transposed

    def tap(self, output: Tensor, saved: tuple[Tensor, ...], gradients: Gradient) -> Tensor:
        """Return the output; its gradient goes to the rule in the backward pass."""
        return self.tape.tap(output, saved, gradients)

    def require_axis(self, axis: int) -> None:
        """Refuse a call whose rows are in another dimension than the rule supports."""
        if self.axis not in (axis, UNKNOWN):
            raise Unhandled(f"{name_of(self.function)} with rows in dimension {self.axis}")

    def collect(self, found: Found) -> None:
        """Store gradients that are computed outside of a tap, in the backward pass."""
        self.tape.collect(found)

    def leaf(self, weight: Tensor, *, dims: int) -> Tensor:
        """Return a weight expanded to a copy for every row, aligned for broadcasting."""
        return self.tape.leaf(weight, axis=self.axis, dims=dims)

    def call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a torch function that may have a rule of its own."""
        return self.tape.dispatch(func, args, kwargs)

    def choose(self, weight: Tensor, costs: dict[str, float]) -> str:
        """Return the cheapest kernel, or the one that is forced."""
        rule = RULE_OF[self.function].name
        forced = self.tape.kernels.get(rule)
        kernel = forced if forced in costs else min(costs, key=costs.__getitem__)
        self.tape.chosen.update(dict.fromkeys(self.tape.weights[weight].names, kernel))
        return kernel
