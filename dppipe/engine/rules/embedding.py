"""Embeddings: a row's gradient is non-zero only at the table entries that it looked up."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.gradients.forms import Gradients, Outer, zero_rows
from dppipe.engine.gradients.norms import BLOCK, SHORT, rounding_of, row_squares, wide_share
from dppipe.engine.gradients.products import cross_products, roundings_of, short_sums
from dppipe.engine.rules.base import Example, Found, Rule, Unhandled, Use, rows_first, wide
from dppipe.engine.units import Units


class Lookups(Gradients):
    """The gradients of a table from which each row looked up some entries.

    A row may look up the same entry several times.
    """

    def __init__(self, ids: Tensor, outputs: Tensor, entries: int) -> None:  # [B, T], [B, T, d]
        self.ids = ids
        self.outputs = outputs
        self.entries = entries

    @cached_property
    def reach(self) -> Tensor:  # -> [B]
        """The sum of the norms of all lookups' gradients: rounding errors are a share of it."""
        tiny = rounding_of(self.outputs.dtype).tiny
        squares = row_squares(self.outputs.flatten(0, 1)) + 4 * self.outputs.shape[2] * tiny
        return squares.sqrt().view_as(self.ids).sum(1)

    def _squares(self) -> Tensor:
        """Add up the lookups of each entry within a row, then take norms (lemma 6).

        No tensor has a size that depends on the data.
        """
        rows, lookups = self.ids.shape
        if lookups == 1:
            return row_squares(self.outputs)
        ids, order = self.ids.sort(dim=1)
        first = torch.ones_like(ids)
        first[:, 1:] = ids[:, 1:] != ids[:, :-1]
        place = first.cumsum(1) - 1 + torch.arange(rows, device=ids.device)[:, None] * lookups
        place = torch.empty_like(place).scatter_(1, order, place)
        sums = torch.zeros_like(self.outputs).flatten(0, 1)
        sums.index_add_(0, place.flatten(), self.outputs.flatten(0, 1))
        share = rounding_of(sums.dtype).gamma(lookups + 2)
        share += wide_share(self.outputs.shape[1:].numel())
        lost = share * self.reach
        return (row_squares(sums.view_as(self.outputs)).sqrt() + lost).square()

    def inner(self, other: Gradients) -> Tensor | None:  # -> [B]
        """Return the inner product with a matrix product on the same table (lemma 7).

        Tied input and output embeddings need it.
        """
        if not isinstance(other, Outer):
            return None
        picked = other.outputs.gather(2, self.ids[:, None].expand(-1, other.outputs.shape[1], -1))
        found = short_sums(picked.mul_(cross_products(other.inputs, self.outputs)))
        rounding = rounding_of(picked.dtype)
        size = self.outputs.shape[2]
        share = rounding.gamma(roundings_of(size) + SHORT + 4)
        share += wide_share(picked.shape[1:].numel())
        lost = share * other.sizes.reach * self.reach
        # Where the uses cancel, what their squares lack may be all that is left of the sum.
        lost += rounding.gamma(BLOCK + 8) * (self.squares + other.squares)
        underflow = 3 * size * other.sizes.outputs + 2 * picked.shape[1]
        return found + lost + 2 * self.ids.shape[1] * rounding.tiny * underflow

    def dense(self) -> Tensor:
        """Form the gradients: a whole table for each row."""
        rows = len(self.ids)
        place = self.ids + torch.arange(rows, device=self.ids.device)[:, None] * self.entries
        table = self.outputs.new_zeros(rows * self.entries, self.outputs.shape[2])
        table.index_add_(0, place.flatten(), self.outputs.flatten(0, 1))
        return table.view(rows, self.entries, -1)

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add each lookup to its entry."""
        scaled = self.outputs * factors.to(total.dtype).view(-1, 1, 1)
        total.index_add_(0, self.ids.flatten(), scaled.flatten(0, 1))

    def keep(self, rows: Tensor) -> Lookups:
        """Zero the other rows."""
        return Lookups(self.ids, zero_rows(self.outputs, rows), self.entries)

    def average(self, units: Units) -> Gradients:
        """Concatenate the lookups of a unit's rows."""
        if units.ragged:
            return super().average(units)
        return Lookups(
            units.gather(self.ids), units.gather(self.outputs, weighted=True), self.entries
        )


def answer(
    use: Use,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Answer `F.embedding`."""
    if max_norm is not None or scale_grad_by_freq:
        raise Unhandled("an embedding with max_norm or scale_grad_by_freq")

    def gradients(output: Tensor, ids: Tensor) -> Found:
        outputs = rows_first(wide(output), use.axis)
        places = ids.movedim(use.axis, 0).reshape(use.rows, -1)
        if padding_idx is not None:
            outputs = outputs.masked_fill((places == padding_idx % len(weight)).unsqueeze(2), 0)
        yield weight, Lookups(places, outputs, len(weight))

    return use.tap(F.embedding(input, weight.detach()), (input,), gradients)


def _ids(*shape: int) -> Any:
    return lambda rows: (torch.randint(0, 5, (rows, *shape)),)


RULE = Rule(
    name="embedding",
    functions=(F.embedding,),
    answer=answer,
    examples=(
        Example(lambda: nn.Embedding(5, 3), _ids(4)),
        Example(lambda: nn.Embedding(5, 3), _ids()),
        Example(lambda: nn.Embedding(5, 3, padding_idx=-1), _ids(2, 3)),
    ),
)
