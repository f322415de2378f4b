"""Scaling by public constants.

Means and deviations of private records would be a release, so nothing here computes them.
Read next: `private_scaling.py`, where they are released with noise and paid for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, model_validator

from dppipe.component import Field, Options
from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    import numpy
    from torch import Tensor

_REFUSAL = (
    "expected constants, such as {{mean: 0.5, std: 0.25}}, got {value!r}. "
    "Statistics of private records are a release of their own: give constants that are known "
    "without these records, or that were fitted on public ones; or pay for them, where "
    "`normalize` takes it, by {{kind: private, noise_multiplier: 4}}."
)


def refuse_fitting(value: Any) -> None:
    """Refuse a word that asks for fitting, with the reason."""
    if value == "TODO":
        raise ValueError("expected a public constant, got TODO. Replace it by the number.")
    if isinstance(value, str | bool):
        raise ValueError(_REFUSAL.format(value=value))


def _constants(value: Any) -> Any:
    refuse_fitting(value)
    return tuple(value) if isinstance(value, list) else value


def _numbers(value: Any) -> Any:
    value = _constants(value)
    return (value,) if isinstance(value, int | float) else value


Number = Annotated[float, BeforeValidator(_constants, json_schema_input_type=float)]
"""A constant; a word that asks for a fitted one is refused with the reason."""

Numbers = Annotated[
    tuple[float, ...], BeforeValidator(_numbers, json_schema_input_type=float | list[float])
]
"""One number for all, or one for each channel or feature (an input's first dimension)."""


class Constants(Options):
    """What `normalize` takes: an input becomes `(input - mean) / std`.

    Guarantee: both are options, known before a record is read.
    """

    mean: Numbers = Field(
        (0.0,),
        min_length=1,
        description="Subtracted: one number, or one for each channel or feature.",
    )
    std: Numbers = Field(
        (1.0,),
        min_length=1,
        description="Divided by: one number, or one for each channel or feature.",
    )

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if min(self.std) <= 0:
            raise ValueError(f"expected std > 0, got {min(self.std):g}.")
        return self

    def apply(self, inputs: numpy.ndarray) -> None:  # [records, first, ...] of float32
        """Scale the inputs in place."""
        import numpy

        first = inputs.shape[1]
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, first):
                message = (
                    f"expected 1 number or {first}, one for each entry of an input's first "
                    f"dimension, got {len(numbers)}."
                )
                raise SpecError([Problem(("data", "normalize", name), message)])
        shape = (1, -1) + (1,) * (inputs.ndim - 2)
        with numpy.errstate(over="ignore"):  # infinities are refused afterwards, by record
            inputs -= numpy.array(self.mean, dtype=numpy.float32).reshape(shape)
            inputs /= numpy.array(self.std, dtype=numpy.float32).reshape(shape)

    def transformed(self, inputs: Tensor) -> Tensor:  # [n, first, ...] -> [n, first, ...]
        """Return the scaled inputs, in their type: the arithmetic of `apply`."""
        return (inputs - _spread(self.mean, inputs)) / _spread(self.std, inputs)


def _spread(numbers: tuple[float, ...], inputs: Tensor) -> Tensor:  # -> [1 or first, 1, ...]
    """Return constants in a shape that goes along the first dimension after the batch."""
    import torch

    if len(numbers) not in (1, inputs.shape[1]):
        raise UsageError(
            f"data.normalize: expected inputs [n, {len(numbers)}, ...], got {list(inputs.shape)}. "
            "Give them as the file has them."
        )
    spread = torch.tensor(numbers, dtype=torch.float64).to(inputs)
    return spread.reshape(-1, *(1,) * (inputs.dim() - 2))
