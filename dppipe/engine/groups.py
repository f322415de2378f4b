"""Which trainable parameter belongs to which group of the clipper, in one fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy
import torch
from torch import Tensor, nn

from dppipe.clipper_abilities import first_state
from dppipe.engine.contracts import Clips
from dppipe.engine.gradients.norms import raise_norms, rounding_of, wider
from dppipe.errors import UsageError


@dataclass(frozen=True)
class Groups:
    """The clipper's groups; `names` gives the order of the columns of norms, bounds and factors."""

    names: tuple[str, ...]
    sizes: Mapping[str, int]
    """The number of parameter values in each group, in the order of `names`."""
    column: Mapping[str, int]
    """The group's column for each trainable parameter's name."""
    unit: float
    """The largest relative error of one operation in the coarsest type that gradients are computed in."""

    def norms(
        self, squares: Mapping[str, Tensor], rows: int, *, like: Tensor
    ) -> Tensor:  # {name: [B]} -> [B, G]
        """Return the norm of each group from the squared norms of its parameters, never too low (`ROUNDING.md`)."""
        return self._raised(self._totals(squares, rows, like=like).sqrt_(), like=like)

    def totals(
        self, sizes: Mapping[str, Tensor], rows: int, *, like: Tensor
    ) -> Tensor:  # {name: [B]} -> [B, G]
        """Return the sum of absolute values of each group from those of its parameters, never too low."""
        return self._raised(self._totals(sizes, rows, like=like), like=like)

    def _totals(self, values: Mapping[str, Tensor], rows: int, *, like: Tensor) -> Tensor:
        totals = wider(like.new_zeros(rows, len(self.names)))
        for name, value in values.items():
            totals[:, self.column[name]] += value
        return totals

    def _raised(self, norms: Tensor, *, like: Tensor) -> Tensor:
        return raise_norms(norms, largest=max(self.sizes.values()), unit=self.unit).to(like.dtype)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Give the trainable parameters by name; a tied one stands once, under its first name."""
    return {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }


def make_groups(clipper: Clips, parameters: Mapping[str, Tensor]) -> Groups:
    """Ask the clipper for its groups and check that every trainable parameter has one."""
    chosen = clipper.groups(
        {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    )
    if set(chosen) != set(parameters):
        odd = sorted(set(chosen) ^ set(parameters))
        raise UsageError(
            f"clipping: expected one group for every trainable parameter, got a difference at {odd}. Fix groups()."
        )
    sizes: dict[str, int] = {}
    for name, parameter in parameters.items():
        sizes[chosen[name]] = sizes.get(chosen[name], 0) + parameter.numel()
    names = tuple(sizes)
    unit = max(
        (rounding_of(parameter.dtype).unit for parameter in parameters.values()), default=0.0
    )
    return Groups(names, sizes, {name: names.index(chosen[name]) for name in parameters}, unit)


def bound_values(
    clipper: Clips,
    groups: Groups,
    state: Mapping[str, object] | None,
    *,
    like: Tensor,
    factor: float = 1.0,
) -> tuple[float, ...]:  # -> [G]
    """Give the bounds of a clipper's state as numbers of the host, times a factor; without a state, of its first one.

    The precision of the sums holds them exactly, so what noise is scaled to is the very bound that is enforced.
    """
    bounds = clipper.bounds(first_state(clipper, groups.sizes) if state is None else state)
    values = (
        [float(bounds)] * len(groups.names)
        if isinstance(bounds, (int, float))
        else [float(value) for value in bounds]
    )
    if len(values) != len(groups.names):
        raise UsageError(
            f"clipping: expected {len(groups.names)} bounds, one for each group, got {len(values)}. Fix bounds()."
        )
    precision = numpy.dtype(str(_precision(like)).removeprefix("torch."))
    with numpy.errstate(over="ignore"):  # an infinite bound is refused where noise is scaled to it
        return tuple((factor * numpy.asarray(values)).astype(precision).tolist())


def place_bounds(values: Sequence[float], *, like: Tensor) -> Tensor:  # [G] -> [G]
    """Give bounds as a tensor beside `like`; nothing is read from its device."""
    return torch.tensor(values, dtype=_precision(like)).to(like.device)


def bounds_tensor(
    clipper: Clips, groups: Groups, state: Mapping[str, object] | None, like: Tensor
) -> Tensor:  # -> [G]
    """Give the bounds of a clipper's state as a tensor beside `like`; without a state, of its first one."""
    return place_bounds(bound_values(clipper, groups, state, like=like), like=like)


def _precision(like: Tensor) -> torch.dtype:
    return torch.promote_types(like.dtype, torch.float32)
