"""The clipper's groups: which trainable parameter belongs to which, in one fixed order."""

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
    """The clipper's groups; columns of norms, bounds and factors are in the order of `names`."""

    names: tuple[str, ...]
    sizes: Mapping[str, int]
    """The number of parameter values in each group, in the order of `names`."""
    column: Mapping[str, int]
    """The group's column for each trainable parameter's name."""
    unit: float
    """The largest relative error of one operation in the coarsest type of the gradients."""

    def norms(
        self, squares: Mapping[str, Tensor], rows: int, *, like: Tensor
    ) -> Tensor:  # {name: [B]} -> [B, G]
        """Return the norm of each group from its parameters' squared norms.

        It is never too low (`gradients/ROUNDING.md`).
        """
        return self._raised(self._totals(squares, rows, like=like).sqrt_(), like=like)

    def totals(
        self, sizes: Mapping[str, Tensor], rows: int, *, like: Tensor
    ) -> Tensor:  # {name: [B]} -> [B, G]
        """Return each group's sum of absolute values from its parameters' sums; never too low."""
        return self._raised(self._totals(sizes, rows, like=like), like=like)

    def _totals(self, values: Mapping[str, Tensor], rows: int, *, like: Tensor) -> Tensor:
        if len(self.names) == 1 and values:
            return torch.stack(tuple(values.values())).sum(0).unsqueeze(1)
        totals = wider(like.new_zeros(rows, len(self.names)))
        for name, value in values.items():
            totals[:, self.column[name]] += value
        return totals

    def _raised(self, norms: Tensor, *, like: Tensor) -> Tensor:
        return raise_norms(norms, largest=max(self.sizes.values()), unit=self.unit).to(like.dtype)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters by name; a tied one appears once, under its first name."""
    named = model.named_parameters()
    return {name: parameter for name, parameter in named if parameter.requires_grad}


def make_groups(clipper: Clips, parameters: Mapping[str, Tensor]) -> Groups:
    """Ask the clipper for its groups and check that every trainable parameter has one."""
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    chosen = clipper.groups(shapes)
    if set(chosen) != set(parameters):
        odd = sorted(set(chosen) ^ set(parameters))
        raise UsageError(
            "clipping: expected one group for every trainable parameter, "
            f"got a difference at {odd}. Fix groups()."
        )
    sizes: dict[str, int] = {}
    unit = 0.0
    for name, parameter in parameters.items():
        sizes[chosen[name]] = sizes.get(chosen[name], 0) + parameter.numel()
        unit = max(unit, rounding_of(parameter.dtype).unit)
    names = tuple(sizes)
    return Groups(names, sizes, {name: names.index(chosen[name]) for name in parameters}, unit)


def bound_values(
    clipper: Clips,
    groups: Groups,
    state: Mapping[str, object] | None,
    *,
    like: Tensor,
    factor: float = 1.0,
) -> tuple[float, ...]:  # -> [G]
    """Return the clipping bounds of a clipper's state as Python floats, times a factor.

    Without a state they are those of the first one. The precision of the sums holds them exactly,
    so noise is scaled to the very bound that is enforced.
    """
    bounds = clipper.bounds(first_state(clipper, groups.sizes) if state is None else state)
    if isinstance(bounds, (int, float)):
        bounds = [bounds] * len(groups.names)
    values = list(map(float, bounds))
    if len(values) != len(groups.names):
        raise UsageError(
            f"clipping: expected {len(groups.names)} bounds, one for each group, "
            f"got {len(values)}. Fix bounds()."
        )
    precision = numpy.dtype(str(_precision(like)).removeprefix("torch."))
    with numpy.errstate(over="ignore"):  # an infinite bound is refused where noise is scaled to it
        return tuple((factor * numpy.asarray(values)).astype(precision).tolist())


def place_bounds(values: Sequence[float], *, like: Tensor) -> Tensor:  # [G] -> [G]
    """Return bounds as a tensor on the device of `like`; nothing is read from the device."""
    return torch.tensor(values, dtype=_precision(like)).to(like.device)


def bounds_tensor(
    clipper: Clips, groups: Groups, state: Mapping[str, object] | None, like: Tensor
) -> Tensor:  # -> [G]
    """Return the bounds of a clipper's state, or of its first one, on the device of `like`."""
    return place_bounds(bound_values(clipper, groups, state, like=like), like=like)


def _precision(like: Tensor) -> torch.dtype:
    return torch.promote_types(like.dtype, torch.float32)
