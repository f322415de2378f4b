"""Models that take inputs as the data's file has them: they scale their inputs themselves.

The scaling is a forward pre-hook, not a layer: the network stays the user's own, with its own
class, parameter names and state dict, and the hook goes with it into a copy, a pickle and onto
another device.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.data.reading.scaling import Constants


def take_raw_inputs(network: nn.Module, scaling: Sequence[Constants]) -> None:
    """Let a network scale its inputs itself, by these constants in this order."""
    if scaling:
        network.register_forward_pre_hook(ScalesInputs(scaling), with_kwargs=True, prepend=True)


class ScalesInputs:
    """The hook: an input becomes `(input - mean) / std`, for each pair of constants in turn."""

    def __init__(self, scaling: Sequence[Constants]) -> None:
        self._steps: list[tuple[Tensor, Tensor]] = []
        for constants in scaling:
            mean = torch.tensor(constants.mean, dtype=torch.float64)
            std = torch.tensor(constants.std, dtype=torch.float64)
            self._steps.append((mean, std))

    def __call__(self, network: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Scale the network's first argument, however it is passed."""
        if args:
            return (self.scale(args[0], network=network), *args[1:]), kwargs
        name = next(iter(inspect.signature(network.forward).parameters), "")
        return args, {**kwargs, name: self.scale(kwargs.get(name), network=network)}

    def scale(self, inputs: Any, *, network: nn.Module) -> Tensor:
        """Return the inputs as the network was trained on them, in the type of its parameters.

        Inputs are `[n, first, ...]`, of any type of number. The arithmetic is that of the data
        kinds: 32-bit floats, or 64-bit ones if the inputs are.
        """
        if not isinstance(inputs, Tensor) or inputs.dim() < 2:
            raise UsageError(
                "load_model: expected a batch of inputs, a tensor [n, ...], as the model's first "
                "argument."
            )
        scaled = inputs if inputs.dtype == torch.float64 else inputs.float()
        for mean, std in self._steps:
            scaled = (scaled - _spread(mean, scaled)) / _spread(std, scaled)
        for parameter in network.parameters():
            if parameter.is_floating_point():
                return scaled.to(parameter.dtype)
        return scaled.to(torch.float32)


def _spread(numbers: Tensor, inputs: Tensor) -> Tensor:  # [1] or [first] -> [1 or first, 1, ...]
    """Return constants in a shape that goes along the first dimension after the batch."""
    if len(numbers) not in (1, inputs.shape[1]):
        shape = list(inputs.shape)
        raise UsageError(
            f"load_model: expected inputs [n, {len(numbers)}, ...], got {shape}. Give them as the "
            "file has them."
        )
    return numbers.to(inputs).reshape(-1, *(1,) * (inputs.dim() - 2))
