"""The tape: it sees every use of a trainable parameter in a forward pass, whichever module makes it.

It is a torch function mode, so nothing of the user's module is wrapped or changed. A call that uses a trainable parameter is
answered by the rule of its function on detached parameters, and the output is tapped: in the one backward pass each tap receives
its output's gradient, from which the rule gives the parameter's gradients row by row. Autograd computes no parameter gradient
at all; should one reach a parameter, it was used where no rule could see it, and that is an error, never a silent omission.
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
from dppipe.engine.tape.weights import Weight, Weights, tensors_in
from dppipe.engine.units import Units

Key = tuple[Callable[..., Any], tuple[str, ...], tuple[int, ...]]
"""A function, the names of the parameters that one call of it uses, and the number of dimensions of each tensor it takes."""
UNKNOWN = -1
"""The axis of a call whose rows have not been found yet."""
Gradient = Callable[..., Found]
"""`gradients(gradient of the output, *saved)`, as a rule gives it."""


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
        """Answer by a rule where a weight is used; all other calls go through untouched."""
        used = self.weights.among((args, kwargs)) if self.listening else []
        if not used:
            return func(*args, **kwargs)
        key = make_key(func, used, (args, kwargs))
        rule, axis = RULE_OF.get(func), self._axes.get(key)
        if rule is not None and axis is not None:
            return rule.answer(Call(self, key, axis, self.rows), *args, **kwargs)
        result = func(*args, **kwargs)
        if any(tensor.requires_grad for tensor in tensors_in(result)):
            if not self.weights.alone((args, kwargs)):
                raise Unhandled(
                    f"{name_of(func)} on {', '.join(key[1])}",
                    unseen=rule is not None and key not in self._axes,
                )
            self.weights.derive(result, used, transposed=func in TRANSPOSES)
        return result

    @property
    def listening(self) -> bool:
        """Whether a use that is made now is taped."""
        return torch.is_grad_enabled() and not self._paused

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let calls through untouched for a while."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def tap(self, output: Tensor, saved: tuple[Tensor, ...], gradients: Gradient) -> Tensor:
        """Give the output back, with the rule waiting for its gradient."""

        shape = output.shape

        def receive(gradient: Tensor, *kept: Tensor) -> None:
            self.give(gradients(gradient.view(shape), *kept))

        # Tapping a view in place would make autograd copy its gradient, so what it is a view of is tapped instead.
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
        """Give a copy of a weight for every row, aligned for broadcasting; its gradient is the weight's, row by row."""
        aligned = weight.detach().reshape(*[1] * (dims - weight.dim()), *weight.shape)
        if dims < weight.dim() or aligned.shape[axis] != 1:
            raise Unhandled(
                f"a parameter of shape {tuple(weight.shape)} that differs from row to row"
            )
        sizes = [self.rows if i == axis else size for i, size in enumerate(aligned.shape)]
        leaf = aligned.expand(sizes).requires_grad_()
        self._leaves.append((weight, leaf, axis))
        return leaf

    def give(self, found: Found) -> None:
        """Take what a rule finds; it computes here, so outside autocast and in full float32 whatever the model runs in."""
        with exact(self._anchor.device), torch._C.DisableTorchFunction():
            for weight, gradients in found:
                if weight is not None:
                    self.add(weight, gradients)

    def add(self, weight: Tensor, gradients: Gradients) -> None:
        """Take one use's gradients; the norms of a first use are computed while its factors are still in cache."""
        if self.units is not None:
            gradients = gradients.average(self.units)
        uses = self._found.setdefault(id(weight), (weight, []))[1]
        uses.append(gradients)
        if len(uses) == 1:
            _ = gradients.squares

    def backward(self, losses: Tensor) -> dict[str, Gradients]:  # [B]
        """Run the one backward pass and give each parameter's gradients, unused parameters left out."""
        if losses.requires_grad:
            names = list(self.weights.parameters)
            inputs = [
                self._anchor,
                *self.weights.parameters.values(),
                *(leaf for _, leaf, _ in self._leaves),
            ]
            found = torch.autograd.grad(losses, inputs, torch.ones_like(losses), allow_unused=True)[
                1:
            ]
            leaked = [
                name for name, gradient in zip(names, found, strict=False) if gradient is not None
            ]
            if leaked:
                raise Unhandled(f"a function out of sight on {', '.join(leaked)}", names=leaked)
            for (weight, _, axis), gradient in zip(self._leaves, found[len(names) :], strict=True):
                if gradient is not None:
                    self.give(
                        [
                            (
                                weight,
                                Dense(gradient.movedim(axis, 0).reshape(self.rows, *weight.shape)),
                            )
                        ]
                    )
        with exact(self._anchor.device):
            return self._by_parameter()

    def _by_parameter(self) -> dict[str, Gradients]:
        found: dict[str, list[Gradients]] = {}
        taken, self._found, self._leaves = self._found, {}, []
        for tensor, uses in taken.values():
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
        """Whether gradients of this argument are wanted."""
        return weight in self.tape.weights

    def untransposed(self, weight: Tensor) -> Tensor | None:
        """Give the matrix of which a weight is the transpose."""
        return self.tape.weights[weight].transposed

    def tap(self, output: Tensor, saved: tuple[Tensor, ...], gradients: Gradient) -> Tensor:
        """Give the output back, with the rule waiting for its gradient."""
        return self.tape.tap(output, saved, gradients)

    def require_axis(self, axis: int) -> None:
        """Refuse a call whose rows stand in another dimension than the rule can deal with."""
        if self.axis not in (axis, UNKNOWN):
            raise Unhandled(f"{name_of(self.function)} with rows in dimension {self.axis}")

    def give(self, found: Found) -> None:
        """Hand over gradients outside of a tap, in the backward pass."""
        self.tape.give(found)

    def leaf(self, weight: Tensor, *, dims: int) -> Tensor:
        """Give a copy of a weight for every row, aligned for broadcasting."""
        return self.tape.leaf(weight, axis=self.axis, dims=dims)

    def call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a torch function that may have a rule of its own."""
        return self.tape.dispatch(func, args, kwargs)

    def choose(self, weight: Tensor, costs: dict[str, float]) -> str:
        """Choose the cheapest kernel, unless one of them is forced."""
        rule = RULE_OF[self.function].name
        forced = self.tape.kernels.get(rule)
        kernel = forced if forced in costs else min(costs, key=costs.__getitem__)
        self.tape.chosen.update(dict.fromkeys(self.tape.weights[weight].names, kernel))
        return kernel


class Tap(torch.autograd.Function):
    """The identity; its backward hands the gradient on to a rule as it passes."""

    @staticmethod
    def forward(
        ctx: Any, output: Tensor, anchor: Tensor, receive: Callable[..., None], *saved: Tensor
    ) -> Tensor:
        """Keep what the rule wants back: autograd refuses it should it be changed in place before then."""
        ctx.receive, ctx.strides = receive, output.stride()
        ctx.mark_dirty(output)
        ctx.save_for_backward(*saved)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Hand the gradient over."""
        gradient = gradients[0]
        if (
            gradient.stride() != ctx.strides
        ):  # One copy here saves one in each product that takes it.
            gradient = torch.empty_strided(
                gradient.shape, ctx.strides, dtype=gradient.dtype, device=gradient.device
            ).copy_(gradient)
        saved, receive = ctx.saved_tensors, ctx.receive
        ctx.receive = None
        receive(
            gradient.detach(), *(tensor.detach() for tensor in saved)
        )  # Without history: it would keep the tape alive.
        return gradient, None, None, *[None] * len(saved)


def make_key(func: Callable[..., Any], used: list[Weight], values: Any) -> Key:
    """Give what a call is recognised by from one forward pass to the next."""
    return (
        func,
        tuple(name for weight in used for name in weight.names),
        tuple(tensor.dim() for tensor in tensors_in(values)),
    )


TRANSPOSES = frozenset({torch.t, Tensor.t, Tensor.T.__get__, Tensor.mT.__get__})  # type: ignore[attr-defined]


def name_of(func: Callable[..., Any]) -> str:
    """Give the public name of a torch function."""
    return str(torch.overrides.resolve_name(func) or getattr(func, "__name__", repr(func)))
