"""Models that take inputs as the data's file has them: they transform their inputs themselves.

The transforms are a forward pre-hook, not a layer: the network stays the user's own, with its own
class, parameter names and state dict, and the hook goes with it into a copy, a pickle and onto
another device.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.learners.inputs.stages import InputTransform


def take_raw_inputs(
    network: nn.Module,
    transforms: Sequence[InputTransform],
    *,
    rows: Rows | None = None,
    after_rows: Sequence[InputTransform] = (),
    integers: bool = False,
) -> None:
    """Let a network transform its inputs itself, in this order.

    Args:
        network: The network; its class and its parameters stay as they are.
        transforms: What becomes of a tensor of raw inputs.
        rows: The data kind, where it can encode rows of a table.
        after_rows: What becomes of the rows that it has encoded.
        integers: Whether the network takes integers, such as token ids, which stay as they are.
    """
    hook = TransformsInputs(transforms, rows=rows, after_rows=after_rows, integers=integers)
    network.register_forward_pre_hook(hook, with_kwargs=True, prepend=True)


class Rows(Protocol):
    """A data kind whose records are rows of a table."""

    def encode_rows(self, rows: Any) -> Tensor:  # -> [n, inputs]
        """Return the inputs of rows that are named by column."""
        ...


class TransformsInputs:
    """The hook: an input is scaled, and becomes features, as it was in training."""

    def __init__(
        self,
        transforms: Sequence[InputTransform],
        *,
        rows: Rows | None = None,
        after_rows: Sequence[InputTransform] = (),
        integers: bool = False,
    ) -> None:
        self._integers = integers
        self._transforms = tuple(transforms)
        self._rows = rows
        self._after_rows = tuple(after_rows)

    def __call__(self, network: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Transform the network's first argument, however it is passed."""
        if args:
            return (self.transform(args[0], network=network), *args[1:]), kwargs
        name = next(iter(inspect.signature(network.forward).parameters), "")
        return args, {**kwargs, name: self.transform(kwargs.get(name), network=network)}

    def transform(self, inputs: Any, *, network: nn.Module) -> Tensor:
        """Return the inputs as the network was trained on them, in the type of its parameters.

        Inputs are `[n, first, ...]`, of any type of number. The arithmetic is that of the data
        kinds: 32-bit floats, or 64-bit ones if the inputs are.
        """
        transforms = self._transforms
        if self._rows is not None and not isinstance(inputs, Tensor):
            made = self._rows.encode_rows(inputs)
            transforms = self._after_rows
        elif not isinstance(inputs, Tensor) or inputs.dim() < 2:
            raise UsageError(
                "load_model: expected a batch of inputs, a tensor [n, ...], as the model's first "
                "argument."
            )
        elif self._integers:
            made = inputs.long()
        else:
            made = inputs if inputs.dtype == torch.float64 else inputs.float()
        for transform in transforms:
            made = transform.transformed(made)
        if self._integers:
            return made
        for parameter in network.parameters():
            if parameter.is_floating_point():
                return made.to(parameter.dtype)
        return made.to(torch.float32)
