"""One parameter's gradients for every row of a batch, in the form that is cheapest to hold.

The engine needs two things of them: each row's squared norm, and one sum weighted by the clipping
factors. `Dense` holds the gradients themselves. `Outer` holds the two factors of a matrix product
and never forms the gradients. `Total` is the sum of several uses of one parameter, whose norm has
cross terms. Layer rules add forms of their own. A norm is of the very numbers that are held and
added up, and is never too low for them (`ROUNDING.md`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from dppipe.engine.gradients.costs import outer_costs
from dppipe.engine.gradients.norms import row_squares
from dppipe.engine.gradients.products import Sizes, outer_sizes, outer_squares
from dppipe.engine.units import Units


class Gradients(ABC):
    """The gradients of one parameter, one for every row: `[B, *shape]`, perhaps unformed."""

    @cached_property
    def squares(self) -> Tensor:  # -> [B]
        """Each row's squared norm, in float64."""
        return self._squares()

    @abstractmethod
    def _squares(self) -> Tensor:  # -> [B]
        """Compute each row's squared norm in float64.

        It is too low by at most what `raise_norms` adds (lemma 8).
        """

    @abstractmethod
    def dense(self) -> Tensor:  # -> [B, *shape]
        """Form the gradients."""

    @abstractmethod
    def add_to(self, total: Tensor, factors: Tensor) -> None:  # [*shape], [B]
        """Add the sum of the rows, each times its factor, onto `total`."""

    @abstractmethod
    def keep(self, rows: Tensor) -> Gradients:  # [B] of bool
        """Replace all other rows by zeros in every held tensor, since 0 times infinity isn't 0."""

    def average(self, units: Units) -> Gradients:
        """Return the average over each unit's rows: `[U, *shape]`."""
        return Dense(units.average(self.dense()))

    def inner(self, other: Gradients) -> Tensor | None:  # -> [B]
        """Return an upper bound of each row's inner product with another use of the parameter.

        The result is None where no cheap form is known.
        """
        return None


class Dense(Gradients):
    """Gradients that are formed."""

    def __init__(self, values: Tensor) -> None:  # [B, *shape]
        self.values = values

    def _squares(self) -> Tensor:
        return row_squares(self.values)

    def dense(self) -> Tensor:
        """Return the gradients."""
        return self.values

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add one matrix-vector product."""
        values = self.values.reshape(len(factors), -1).to(total.dtype)
        total.view(-1).addmv_(values.t(), factors.to(total.dtype))

    def keep(self, rows: Tensor) -> Dense:
        """Zero the other rows."""
        return Dense(zero_rows(self.values, rows))


class Outer(Gradients):
    """Sums of outer products over the positions of each row: `sum_t outputs[b, t] inputs[b, t]^T`.

    Norms come from the Gram matrices of both (`products.py`). The weighted sum is one matrix
    product over rows and positions together.
    """

    def __init__(
        self, inputs: Tensor, outputs: Tensor, *, input_squares: Tensor | None = None
    ) -> None:  # [B, T, d], [B, T, p]
        self.inputs = inputs
        self.outputs = outputs
        self.input_squares = input_squares

    @cached_property
    def sizes(self) -> Sizes:
        """The norms of each row's sum and of its parts."""
        return outer_sizes(self.inputs, self.outputs)

    def _squares(self) -> Tensor:
        return outer_squares(self.inputs, self.outputs, input_squares=self.input_squares)

    def dense(self) -> Tensor:
        """Form the gradients by one batched product."""
        return torch.bmm(self.outputs.transpose(1, 2), self.inputs)

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Scale the smaller factor and add one matrix product."""
        scale = factors.to(total.dtype).view(-1, 1, 1)
        inputs = self.inputs
        outputs = self.outputs
        if inputs.shape[2] < outputs.shape[2]:
            inputs = inputs * scale
        else:
            outputs = outputs * scale
        total.view(outputs.shape[2], inputs.shape[2]).addmm_(
            outputs.flatten(0, 1).t(), inputs.flatten(0, 1)
        )

    def keep(self, rows: Tensor) -> Outer:
        """Zero the other rows in both factors."""
        return Outer(zero_rows(self.inputs, rows), zero_rows(self.outputs, rows))

    def average(self, units: Units) -> Gradients:
        """Concatenate the positions of a unit's rows."""
        if units.ragged:
            return super().average(units)
        return Outer(units.gather(self.inputs), units.gather(self.outputs, weighted=True)).cheaper()

    def cheaper(self) -> Gradients:
        """Return the same gradients in the form whose norms are cheaper."""
        rows, positions, size = self.inputs.shape
        costs = outer_costs(rows, positions, size, self.outputs.shape[2])
        return self if positions == 1 or costs["ghost"] < costs["dense"] else Dense(self.dense())


class Total(Gradients):
    """The sum of several uses of one parameter, with the inner product of each pair of them."""

    def __init__(self, uses: list[Gradients], inner: list[Tensor]) -> None:
        self.uses = uses
        self._inner = inner

    def _squares(self) -> Tensor:
        squares = torch.stack([use.squares for use in self.uses]).sum(0)
        return (squares + 2 * torch.stack(self._inner).sum(0)).clamp_(min=0)

    def dense(self) -> Tensor:
        """Form the sum."""
        return sum_formed(self.uses)

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add each use: the sum is linear."""
        for use in self.uses:
            use.add_to(total, factors)

    def keep(self, rows: Tensor) -> Total:
        """Zero the other rows of each use."""
        uses = [use.keep(rows) for use in self.uses]
        return Total(uses, [zero_rows(inner, rows) for inner in self._inner])


def combine(uses: list[Gradients]) -> Gradients:
    """Return the gradients of all uses of one parameter; uses of the same form are merged."""
    if len(uses) == 1:
        return uses[0]
    outer = [use for use in uses if isinstance(use, Outer)]
    dense = [use for use in uses if isinstance(use, Dense)]
    rest = [use for use in uses if not isinstance(use, (Outer, Dense))]
    if outer:
        inputs = torch.cat([use.inputs for use in outer], 1)
        outputs = torch.cat([use.outputs for use in outer], 1)
        rest.append(Outer(inputs, outputs).cheaper())
    if dense:
        rest.append(Dense(sum_formed(dense)))
    return rest[0] if len(rest) == 1 else _total(rest)


def _total(uses: list[Gradients]) -> Gradients:
    """Hold uses of several forms by their inner products; form them where one isn't cheap."""
    found: list[Tensor] = []
    for i, left in enumerate(uses):
        for right in uses[:i]:
            inner = left.inner(right)
            inner = right.inner(left) if inner is None else inner
            if inner is None:
                # Forming the sum rounds it, so the formed sum must be added up, not each use.
                return Dense(sum_formed(uses))
            found.append(inner)
    return Total(uses, found)


def sum_formed(uses: Sequence[Gradients]) -> Tensor:  # -> [B, *shape]
    """Form the sum of several uses."""
    return torch.stack([use.dense() for use in uses]).sum(0)


def zero_rows(values: Tensor, keep: Tensor) -> Tensor:  # [B, ...], [B] of bool -> [B, ...]
    """Return the values with zeros in the rows that are not kept, even over infinities."""
    return torch.where(keep.view(-1, *[1] * (values.dim() - 1)), values, 0)
