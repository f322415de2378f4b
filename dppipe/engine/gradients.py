"""One parameter's gradients for every row of a batch, in whatever form is cheapest to hold.

The engine needs two things of them: each row's squared norm, and one sum weighted by the clip factors. `Dense` holds the
gradients themselves; `Outer` holds the two factors of a matrix product and never forms them. `Total` is the sum of several uses
of one parameter: their cross terms belong to the norm. Layer rules add forms of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from dppipe.engine.costs import outer_costs
from dppipe.engine.norms import gram_squares, row_squares, slack
from dppipe.engine.units import Units


class Gradients(ABC):
    """The gradients of one parameter, one for every row: `[B, *shape]`, perhaps unformed."""

    @cached_property
    def squares(self) -> Tensor:  # -> [B]
        """Each row's squared norm."""
        return self._squares()

    @abstractmethod
    def _squares(self) -> Tensor:  # -> [B]
        """Compute each row's squared norm, float32 or wider."""

    @abstractmethod
    def dense(self) -> Tensor:  # -> [B, *shape]
        """Form the gradients."""

    @abstractmethod
    def add_to(self, total: Tensor, factors: Tensor) -> None:  # [*shape], [B]
        """Add the sum of the rows, each times its factor, onto `total`."""

    @abstractmethod
    def keep(self, rows: Tensor) -> Gradients:  # [B] of bool
        """Replace all other rows by zeros in everything that is held: 0 times infinity is not 0."""

    def average(self, units: Units) -> Gradients:
        """Give the average over each unit's rows: `[U, *shape]`."""
        return Dense(units.average(self.dense()))

    def inner(self, other: Gradients) -> Tensor | None:  # -> [B]
        """Give each row's inner product with another use of the same parameter, where a cheap form is known."""
        return None


class Dense(Gradients):
    """Gradients that are formed."""

    def __init__(self, values: Tensor) -> None:  # [B, *shape]
        self.values = values

    def _squares(self) -> Tensor:
        return row_squares(self.values)

    def dense(self) -> Tensor:
        """Give what is held."""
        return self.values

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add one matrix-vector product."""
        total.view(-1).addmv_(self.values.reshape(len(factors), -1).to(total.dtype).t(), factors.to(total.dtype))

    def keep(self, rows: Tensor) -> Dense:
        """Zero the other rows."""
        return Dense(zero_rows(self.values, rows))


class Outer(Gradients):
    """Sums of outer products over the positions of each row: `sum_t outputs[b, t] inputs[b, t]^T`.

    The squared norm is the inner product of two Gram matrices, `<inputs inputs^T, outputs outputs^T>` (Goodfellow 2015 for one
    position; Li et al. 2022, section 4, for many), and the weighted sum is one matrix product over rows and positions together.
    """

    def __init__(self, inputs: Tensor, outputs: Tensor, *, input_squares: Tensor | None = None) -> None:  # [B, T, d], [B, T, p]
        self.inputs = inputs
        self.outputs = outputs
        self.input_squares = input_squares

    def _squares(self) -> Tensor:
        if self.inputs.shape[1] == 1:
            return (row_squares(self.inputs) if self.input_squares is None else self.input_squares) * row_squares(self.outputs)
        return gram_squares(self._gram(self))

    def inner(self, other: Gradients) -> Tensor | None:
        """Give the inner product of the Gram matrices."""
        return self._gram(other).flatten(1).sum(1) if isinstance(other, Outer) else None

    def _gram(self, other: Outer) -> Tensor:  # -> [B, T, T]
        return torch.bmm(self.inputs, other.inputs.transpose(1, 2)).mul_(torch.bmm(self.outputs, other.outputs.transpose(1, 2)))

    def dense(self) -> Tensor:
        """Form the gradients by one batched product."""
        return torch.bmm(self.outputs.transpose(1, 2), self.inputs)

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Scale the smaller factor and add one matrix product."""
        scale = factors.to(total.dtype).view(-1, 1, 1)
        inputs, outputs = self.inputs, self.outputs
        if inputs.shape[2] < outputs.shape[2]:
            inputs = inputs * scale
        else:
            outputs = outputs * scale
        total.view(outputs.shape[2], inputs.shape[2]).addmm_(outputs.flatten(0, 1).t(), inputs.flatten(0, 1))

    def keep(self, rows: Tensor) -> Outer:
        """Zero the other rows in both factors."""
        return Outer(zero_rows(self.inputs, rows), zero_rows(self.outputs, rows))

    def average(self, units: Units) -> Gradients:
        """Lay the positions of a unit's rows side by side."""
        if units.ragged:
            return super().average(units)
        return Outer(units.gather(self.inputs), units.gather(self.outputs, weighted=True)).cheaper()

    def cheaper(self) -> Gradients:
        """Give the same gradients in the form whose norms are cheaper."""
        rows, positions, size = self.inputs.shape
        costs = outer_costs(rows, positions, size, self.outputs.shape[2])
        return self if positions == 1 or costs["ghost"] < costs["dense"] else Dense(self.dense())


class Total(Gradients):
    """The sum of several uses of one parameter."""

    def __init__(self, uses: list[Gradients]) -> None:
        self.uses = uses

    def _squares(self) -> Tensor:
        parts = torch.stack([use.squares for use in self.uses]).sum(0)
        squares = parts + slack(parts)
        for i, left in enumerate(self.uses):
            for right in self.uses[:i]:
                cross = left.inner(right)
                cross = right.inner(left) if cross is None else cross
                if cross is None:
                    return row_squares(self.dense())
                squares = squares + 2 * cross
        return squares.clamp(min=0)

    def dense(self) -> Tensor:
        """Form the sum."""
        return torch.stack([use.dense() for use in self.uses]).sum(0)

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add each use: the sum is linear."""
        for use in self.uses:
            use.add_to(total, factors)

    def keep(self, rows: Tensor) -> Total:
        """Zero the other rows of each use."""
        return Total([use.keep(rows) for use in self.uses])


def combine(uses: list[Gradients]) -> Gradients:
    """Give the gradients of all uses of one parameter together; uses of one form become one."""
    if len(uses) == 1:
        return uses[0]
    outer = [use for use in uses if isinstance(use, Outer)]
    dense = [use for use in uses if isinstance(use, Dense)]
    rest = [use for use in uses if not isinstance(use, (Outer, Dense))]
    if outer:
        inputs, outputs = torch.cat([use.inputs for use in outer], 1), torch.cat([use.outputs for use in outer], 1)
        rest.append(Outer(inputs, outputs).cheaper())
    if dense:
        rest.append(Dense(torch.stack([use.values for use in dense]).sum(0)))
    return rest[0] if len(rest) == 1 else Total(rest)


def zero_rows(values: Tensor, keep: Tensor) -> Tensor:  # [B, ...], [B] of bool -> [B, ...]
    """Give the values with zeros in the rows that are not kept, whatever stood there."""
    return torch.where(keep.view(-1, *[1] * (values.dim() - 1)), values, 0)
