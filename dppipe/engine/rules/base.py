"""What a layer rule is: how one torch function passes its parameters' gradients on, row by row.

A rule answers a call of its function in place of torch: it computes the same value from detached parameters, then taps the
output. In the one backward pass the tap hands over the output's gradient, and the rule says what gradients its parameters have,
in whatever form is cheapest (`dppipe.engine.gradients.forms`). Adding a rule is one file with a
`RULE` and one line in `__init__`.
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
    """This call has no rule; the smallest module around it is evaluated row by row instead."""

    def __init__(self, reason: str, *, names: Sequence[str] = (), unseen: bool = False) -> None:
        self.names = tuple(names)
        self.unseen = unseen
        """Whether the function has a rule and the call was only missing from the layout."""
        super().__init__(reason)


class Use(Protocol):
    """One call of a rule's function, as the rule sees it."""

    @property
    def axis(self) -> int:
        """The dimension that counts rows, of what the rule looks at."""

    @property
    def rows(self) -> int:
        """The number of rows, B."""

    @property
    def function(self) -> Callable[..., Any]:
        """The torch function that was called."""

    def trains(self, weight: Tensor | None) -> bool:
        """Whether gradients of this argument are wanted."""

    def tap(
        self, output: Tensor, saved: tuple[Tensor, ...], gradients: Callable[..., Found]
    ) -> Tensor:
        """Give the output back; in the backward pass call `gradients(gradient of the output, *saved)`."""

    def require_axis(self, axis: int) -> None:
        """Refuse a call whose rows stand in another dimension than the rule can deal with."""

    def give(self, found: Found) -> None:
        """Hand over gradients outside of a tap, in the backward pass."""

    def leaf(self, weight: Tensor, *, dims: int) -> Tensor:
        """Give a copy of a weight for every row, aligned for broadcasting to this many dimensions."""

    def untransposed(self, weight: Tensor) -> Tensor | None:
        """Give the matrix of which a weight is the transpose, where it is one."""

    def call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a torch function that may have a rule of its own."""

    def choose(self, weight: Tensor, costs: dict[str, float]) -> str:
        """Choose the cheapest kernel, unless one is forced."""


@dataclass(frozen=True)
class Example:
    """A small module with inputs on which the contract tests try a rule: `module(*inputs(rows))` is `[rows, ...]`."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]


@dataclass(frozen=True)
class Rule:
    """How calls of some torch functions are answered."""

    name: str
    functions: tuple[Callable[..., Any], ...]
    answer: Callable[..., Any]
    """`answer(use, *args, **kwargs)`, with the arguments of the function itself; may raise `Unhandled`."""
    examples: tuple[Example, ...]
    kernels: tuple[str, ...] = ()
    """The ways of computing norms among which `choose` decides by cost."""
    looks_at: Literal["input", "output"] = "input"
    """Whose rows `axis` counts: those of the first tensor that isn't a weight, or those of the result."""


def plain(weight: Tensor | None) -> Tensor | None:
    """Give the value of a parameter without its history."""
    return None if weight is None else weight.detach()


def rows_first(values: Tensor, axis: int) -> Tensor:  # -> [B, T, last]
    """Put the rows first and flatten all between them and the last dimension."""
    moved = values.movedim(axis, 0).contiguous() if axis else values
    return moved.reshape(moved.shape[0], -1, moved.shape[-1])


def wide(values: Tensor) -> Tensor:
    """Widen half-precision values: norms and sums are float32 or wider."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def autocast_wide(values: Tensor) -> Tensor:
    """Widen a normalisation's input where autocast would: torch's inner functions don't do it themselves."""
    device = values.device.type
    return (
        wide(values)
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        else values
    )
