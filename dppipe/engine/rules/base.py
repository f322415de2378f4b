"""The contract of a layer rule: how one torch function's parameters get their per-row gradients.

A rule answers a call of its function in place of torch. It computes the same value from detached
parameters, then taps the output. In the one backward pass the tap hands over the output's gradient,
and the rule yields the gradients of its parameters, in the form that is cheapest
(`dppipe.engine.gradients.forms`). To add a rule, write one file with a `RULE` and list it in
`__init__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from dppipe.engine.gradients.forms import Gradients

Found = Iterable[tuple[Tensor | None, Gradients]]
"""Pairs of a parameter and its gradients."""


class Unhandled(Exception):
    """A call has no rule; the smallest module around it is evaluated row by row instead."""

    def __init__(self, reason: str, *, names: Sequence[str] = (), unseen: bool = False) -> None:
        self.names = tuple(names)
        self.unseen = unseen
        """Whether the function has a rule, and the call is only missing from the layout."""
        super().__init__(reason)


class Use(Protocol):
    """One call of a rule's function, as the rule sees it."""

    @property
    def axis(self) -> int:
        """The dimension that counts rows, in the tensor that the rule looks at."""

    @property
    def rows(self) -> int:
        """The number of rows, B."""

    @property
    def function(self) -> Callable[..., Any]:
        """The torch function that was called."""

    def trains(self, weight: Tensor | None) -> bool:
        """Return whether an argument needs gradients."""

    def tap(
        self, output: Tensor, saved: tuple[Tensor, ...], gradients: Callable[..., Found]
    ) -> Tensor:
        """Return the output.

        The backward pass calls `gradients(gradient of the output, *saved)`.
        """

    def require_axis(self, axis: int) -> None:
        """Refuse a call whose rows are in another dimension than the rule supports."""

    def collect(self, found: Found) -> None:
        """Store gradients that are computed outside of a tap, in the backward pass."""

    def leaf(self, weight: Tensor, *, dims: int) -> Tensor:
        """Return a weight expanded to a copy for every row, aligned to this many dimensions."""

    def untransposed(self, weight: Tensor) -> Tensor | None:
        """Return the matrix whose transpose a weight is, if it is a transpose."""

    def call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a torch function that may have a rule of its own."""

    def choose(self, weight: Tensor, costs: dict[str, float]) -> str:
        """Return the cheapest kernel, or the one that is forced."""


@dataclass(frozen=True)
class Example:
    """A small module and its inputs, for the contract tests of a rule.

    `module(*inputs(rows))` is `[rows, ...]`.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]


@dataclass(frozen=True)
class Rule:
    """How calls of some torch functions are answered."""

    name: str
    functions: tuple[Callable[..., Any], ...]
    answer: Callable[..., Any]
    """`answer(use, *args, **kwargs)`, with the function's own arguments; may raise `Unhandled`."""
    examples: tuple[Example, ...]
    kernels: tuple[str, ...] = ()
    """The kernels among which `choose` decides by cost."""
    looks_at: Literal["input", "output"] = "input"
    """The tensor whose rows `axis` counts: the first one that isn't a weight, or the result."""


def plain(weight: Tensor | None) -> Tensor | None:
    """Return a parameter's value without its autograd history."""
    return None if weight is None else weight.detach()


def rows_first(values: Tensor, axis: int) -> Tensor:  # -> [B, T, last]
    """Move the rows to the front; flatten the dimensions between them and the last one."""
    moved = values.movedim(axis, 0).contiguous() if axis else values
    return moved.reshape(moved.shape[0], -1, moved.shape[-1])


def wide(values: Tensor) -> Tensor:
    """Return the values in float32 or wider, as norms and sums need them."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def autocast_wide(values: Tensor) -> Tensor:
    """Widen a normalisation's input where autocast would; torch's inner functions don't."""
    device = values.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return wide(values)
    return values
