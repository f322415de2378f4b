"""Norms of sums of outer products from the inner products of their factors, never too low.

A row's gradient is often a sum of outer products over its positions, `sum_t outputs_t inputs_t^T`.
Its squared norm is the inner product of two Gram matrices (Goodfellow 2015; Li et al. 2022,
section 4). Where positions cancel, the norm is far smaller than the parts, and rounding at the size
of the parts could hide it. So each squared norm is raised by what rounding may have taken.
`ROUNDING.md` has the lemmas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dppipe.engine.gradients.norms import (
    BLOCK,
    SHORT,
    rounding_of,
    row_squares,
    wide_share,
    wider,
    widest,
)

FEW = 16
"""The most positions for which the simplest bound on rounding is close enough."""


class Sizes(NamedTuple):
    """The sizes of each row's sum of outer products and of its parts; `[B]` each, in float64."""

    squares: Tensor
    """The squared norm of the sum."""
    reach: Tensor
    """The sum of the norms of all outer products: rounding errors are a share of it."""
    outputs: Tensor
    """The sum of the norms of all output gradients."""


class Gram(NamedTuple):
    """The inner products of a row's positions with each other, and their errors (lemma 2).

    Each is off by at most gamma(roundings) times the norms of both positions, plus `terms` times
    `tiny`.
    """

    products: Tensor
    """`[B, T, T]`"""
    roundings: int
    terms: int


def outer_squares(
    inputs: Tensor, outputs: Tensor, *, input_squares: Tensor | None = None
) -> Tensor:  # -> [B]
    """Return the squared norms of `sum_t outputs_t inputs_t^T`.

    Args:
        inputs: `[B, T, d]`.
        outputs: `[B, T, p]`.
        input_squares: `[B]`, the squared norms of the inputs, where T is 1 and they are known.
    """
    if inputs.shape[1] > FEW:
        return gram_sizes(gram(inputs), gram(outputs)).squares
    if inputs.shape[1] > 1:
        return _few_squares(gram(inputs), gram(outputs))
    tiny = rounding_of(inputs.dtype).tiny
    left = row_squares(inputs) if input_squares is None else input_squares.clone()
    # What underflows in one factor may meet a large value in the other: added first (lemma 4).
    left.add_(4 * inputs.shape[2] * tiny)
    return left.mul_(row_squares(outputs).add_(4 * outputs.shape[2] * tiny))


def outer_sizes(inputs: Tensor, outputs: Tensor) -> Sizes:
    """Return the sizes of `sum_t outputs_t inputs_t^T`, from `[B, T, d]` and `[B, T, p]`."""
    if inputs.shape[1] > 1:
        return gram_sizes(gram(inputs), gram(outputs))
    squares = outer_squares(inputs, outputs)
    right = row_squares(outputs) + 4 * outputs.shape[2] * rounding_of(outputs.dtype).tiny
    return Sizes(squares, squares.sqrt(), right.sqrt())


def gram(values: Tensor) -> Gram:  # [B, T, n]
    """Multiply each row's positions with each other."""
    return Gram(cross_products(values, values), roundings_of(values.shape[2]), 3 * values.shape[2])


def cross_products(left: Tensor, right: Tensor) -> Tensor:  # [B, S, n], [B, T, n] -> [B, S, T]
    """Multiply positions with positions, a block of values at a time (lemma 2)."""
    right = right.transpose(1, 2)
    if left.shape[2] <= BLOCK:
        return torch.bmm(left, right)
    blocks = zip(torch.split(left, BLOCK, 2), torch.split(right, BLOCK, 1), strict=True)
    total = torch.bmm(*next(blocks))
    part = torch.empty_like(total)
    for first, second in blocks:
        total += torch.bmm(first, second, out=part)
    return total


def roundings_of(size: int) -> int:
    """Return the number of roundings in each entry of `cross_products`."""
    return min(size, BLOCK) + math.ceil(size / BLOCK) - 1


def gram_sizes(inputs: Gram, outputs: Gram) -> Sizes:
    """Return upper bounds of the sizes from both Gram matrices (lemma 5).

    The inputs' Gram matrix is overwritten.
    """
    left = _position_squares(inputs)
    right = _position_squares(outputs)
    output_norms = right.sqrt()
    reach = (left.sqrt() * output_norms).sum(1)
    lost = _lost(inputs, outputs, left, right, reach=reach)
    found = short_sums(inputs.products.mul_(outputs.products)).clamp_(min=0)
    return Sizes(found.add_(lost), reach, output_norms.sum(1))


def _few_squares(inputs: Gram, outputs: Gram) -> Tensor:  # -> [B]
    """Return upper bounds of the squared norms alone (lemma 5, b and c for few positions)."""
    left = _trace(inputs)
    right = _trace(outputs)
    rounding = rounding_of(inputs.products.dtype)
    positions = inputs.products.shape[1]
    share = rounding.gamma(inputs.roundings + outputs.roundings + 4) + 2 * wide_share(positions**2)
    underflow = 2 * positions * rounding.tiny
    found = wide_sums(inputs.products.mul_(outputs.products)).clamp_(min=0)
    found.addcmul_(left, right, value=share)
    found.add_(left, alpha=underflow * outputs.terms).add_(right, alpha=underflow * inputs.terms)
    return found.add_(2 * positions * underflow)


def _trace(of: Gram) -> Tensor:  # -> [B]
    """Return the sum of the squared norms of all positions, never too low, in float64."""
    rounding = rounding_of(of.products.dtype)
    positions = of.products.shape[1]
    trace = wide_sums(of.products.diagonal(dim1=1, dim2=2))
    raised = (1 + rounding.gamma(of.roundings + 2)) * (1 + 2 * wide_share(positions))
    return trace.mul_(raised).add_(2 * positions * of.terms * rounding.tiny)


def wide_sums(values: Tensor) -> Tensor:  # [B, ...] -> [B]
    """Add up all values of each row in float64, where the device has it."""
    wide = torch.float32 if values.device.type == "mps" else torch.float64
    return values.flatten(1).sum(1, dtype=wide)


def _position_squares(of: Gram) -> Tensor:  # -> [B, T]
    """Return the squared norms of all positions, never too low, in float64."""
    rounding = rounding_of(of.products.dtype)
    diagonal = wider(of.products.diagonal(dim1=1, dim2=2))
    return diagonal.mul_(1 + rounding.gamma(of.roundings + 2)).add_(2 * of.terms * rounding.tiny)


def _norm(of: Gram, trace: Tensor) -> Tensor:  # [B] -> [B]
    """Return the norm of a whole Gram matrix, never too low, in float64."""
    rounding = rounding_of(of.products.dtype)
    positions = of.products.shape[1]
    found = row_squares(of.products).sqrt()
    share = rounding.gamma(BLOCK + 2 * of.roundings + 8) + wide_share(positions**2)
    # Squares of the matrix' own numbers underflow too, hence the root.
    return found + share * (found + trace) + 3 * positions * math.sqrt(rounding.tiny)


def _lost(
    inputs: Gram, outputs: Gram, left: Tensor, right: Tensor, *, reach: Tensor
) -> Tensor:  # -> [B]
    """Return what rounding and underflow may have taken from the squared norms (lemma 5).

    It is the smaller of two bounds; for few positions the first one, which is hardly larger there.
    """
    rounding = rounding_of(inputs.products.dtype)
    positions = left.shape[1]
    short = min(SHORT, positions**2) + 4
    wide = 2 * wide_share(positions**2)
    lost = reach.square().mul_(rounding.gamma(inputs.roundings + outputs.roundings + short) + wide)
    left_trace = left.sum(1)
    right_trace = right.sum(1)
    if positions > FEW:
        left_norm = _norm(inputs, left_trace)
        right_norm = _norm(outputs, right_trace)
        by_norm = rounding.gamma(inputs.roundings + 1) * left_trace * right_norm
        by_norm += rounding.gamma(outputs.roundings + 1) * right_trace * left_norm
        by_norm += (rounding.gamma(short) + wide) * left_norm * right_norm
        lost = torch.minimum(lost, by_norm)
    underflow = left_trace.mul_(outputs.terms).add_(right_trace, alpha=inputs.terms)
    underflow.add_(2 * positions)
    return lost.add_(underflow, alpha=2 * positions * rounding.tiny)


def short_sums(values: Tensor) -> Tensor:  # [B, ...] -> [B]
    """Add up all values of each row: a few at a time in their own type, those sums in float64."""
    if values.numel() and values.numel() // values.shape[0] % SHORT == 0:
        return _block_sums(values.reshape(values.shape[0], -1, SHORT))
    flat = values.flatten(1)
    whole = flat.shape[1] // SHORT * SHORT
    rest = wider(flat[:, whole:].sum(1))
    if not whole:
        return rest
    return rest + _block_sums(torch.unflatten(flat[:, :whole], 1, (-1, SHORT)))


def _block_sums(blocks: Tensor) -> Tensor:  # [B, blocks, n] -> [B]
    sums = blocks.sum(2)
    return sums.sum(1, dtype=widest(sums))
