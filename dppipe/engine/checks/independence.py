"""Rows that affect each other are found by value: a row's loss and gradient must be its own.

On made-up rows that differ in every number, each row is evaluated alone, in the batch, and in the
batch with all other rows replaced. A loss that is divided by the batch's tokens, padding that the
model sees, an order that depends on other rows: each shows as a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten_with_path, tree_map, tree_unflatten

from dppipe.engine.losses import batch_rows, take_rows
from dppipe.engine.tape.weights import tensors_in
from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from dppipe.engine.engine import Engine

TOLERANCE = 1e-3
"""Far above rounding errors, far below the error of a wrong formula."""
ROWS = 4
"""How many rows are compared; a few more where these don't differ."""


class Row(NamedTuple):
    """The loss and the gradients of one row."""

    loss: Tensor
    gradients: dict[str, Tensor]


def evaluate_rows(engine: Engine, batch: Any) -> list[Row]:
    """Evaluate each row alone."""
    return [_row(engine, take_rows(batch, i, i + 1), 0) for i in range(batch_rows(batch))]


def refuse_mixing(engine: Engine, batch: Any, rows: list[Row]) -> None:
    """Refuse a model in which a row's loss or gradient depends on the other rows of the batch."""
    losses = [row.loss for row in rows]
    if not torch.isfinite(torch.stack(losses)).all():
        raise PrivacyRefusal(
            "per_sample_loss: expected finite losses on made-up examples, got others, on which "
            "nothing can be checked. If the model has diverged, start anew with a lower learning "
            "rate. If the examples are at fault, make up better ones by synthetic=."
        )
    with torch.no_grad():
        together = engine.per_sample_loss(engine.model, batch)
    if not close(together, torch.stack(losses)):
        raise _mixing(engine, batch, "loss in a batch than alone")
    for place, alone in enumerate(rows):
        if not _equal(_row(engine, batch, place), alone, losses):
            raise _mixing(engine, batch, "gradient in a batch than alone")
        if not _equal(_row(engine, _others_replaced(batch, place), place), alone, losses):
            raise _mixing(engine, batch, "loss or gradient when the other records are replaced")


def distinct_rows(batch: Any) -> Any:
    """Pick a few rows that differ in every number; refuse a batch that has none.

    Floats that are equal in all rows get noise, since made-up input may be all zeros. Integers and
    truth values don't: a token or a class that is made up here may not exist.
    """
    generator = torch.Generator().manual_seed(0)
    leaves, structure = tree_flatten_with_path(batch)
    made = []
    chosen = list(range(min(ROWS, batch_rows(batch))))
    for path, leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.dim() and leaf.numel():
            differing = (leaf != leaf[:1]).reshape(len(leaf), -1).any(1)
            if bool(differing.any()):
                if not bool(differing[chosen].any()):
                    chosen.append(int(differing.int().argmax()))
            elif leaf.is_floating_point():
                leaf = leaf + torch.randn(leaf.shape, generator=generator).to(leaf)
            else:
                raise _equal_rows("".join(map(str, path)), len(leaf))
        made.append(leaf)

    def pick(leaf: Any) -> Any:
        return leaf[chosen] if isinstance(leaf, Tensor) and leaf.dim() else leaf

    return tree_unflatten(list(map(pick, made)), structure)


def _equal_rows(place: str, count: int) -> PrivacyRefusal:
    return PrivacyRefusal(
        f"synthetic: expected made-up examples that differ in every number, got {count} that are "
        f"equal at batch{place}: records that see each other wouldn't show on them. Give "
        "synthetic=, a function that makes up a batch of n different examples (a data kind has "
        "synthetic(n)): other tokens, other classes, other lengths."
    )


def close(found: Tensor, expected: Tensor) -> bool:
    """Return whether two tensors agree up to rounding at the size of their largest value.

    NaN agrees with nothing.
    """
    if found.shape != expected.shape:
        return False
    if not found.numel():
        return True
    difference = (found - expected).abs().max()
    return bool(difference <= TOLERANCE * expected.abs().max() + 1e-9)


def _row(engine: Engine, batch: Any, place: int) -> Row:
    parameters = list(engine.parameters.values())
    with torch.enable_grad():
        losses = engine.per_sample_loss(engine.model, batch)
        gradients = torch.autograd.grad(
            losses[place], parameters, allow_unused=True, materialize_grads=True
        )
    return Row(losses[place].detach(), dict(zip(engine.parameters, gradients, strict=True)))


def _equal(found: Row, alone: Row, losses: list[Tensor]) -> bool:
    scale = torch.stack(losses).abs().max()
    if not bool((found.loss - alone.loss).abs() <= TOLERANCE * scale + 1e-9):
        return False
    return close(_flat(found), _flat(alone))


def _flat(row: Row) -> Tensor:
    return torch.cat([gradient.flatten().float() for gradient in row.gradients.values()])


def _others_replaced(batch: Any, place: int) -> Any:
    """Return a batch in which every row but one is a copy of the row after it."""

    def replaced(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.dim():
            return leaf
        other = leaf[(place + 1) % len(leaf)]
        made = other.unsqueeze(0).repeat_interleave(len(leaf), 0)
        made[place] = leaf[place]
        return made

    return tree_map(replaced, batch)


def _mixing(engine: Engine, batch: Any, what: str) -> PrivacyRefusal:
    return PrivacyRefusal(
        f"{_first_mixing_module(engine, batch)}: expected each record's loss to depend on that "
        f"record alone, got another {what}. Take out what mixes the records of a batch."
    )


def _first_mixing_module(engine: Engine, batch: Any) -> str:
    """Return the path of the first module whose output for a row changes when the row is alone."""
    with torch.no_grad(), _outputs(engine.model) as together:
        engine.per_sample_loss(engine.model, batch)
    with torch.no_grad(), _outputs(engine.model) as alone:
        engine.per_sample_loss(engine.model, take_rows(batch, 0, 1))
    for (path, left), (_, right) in zip(together, alone, strict=False):
        if left.dim() != right.dim():
            continue
        grown = [i for i in range(left.dim()) if left.shape[i] != right.shape[i]]
        if len(grown) != 1 or right.shape[grown[0]] != 1:
            continue
        if not close(left.narrow(grown[0], 0, 1).flatten(), right.flatten()):
            return path or "model"
    return "per_sample_loss"


@contextmanager
def _outputs(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Note every module's first output in the block, in the order in which modules finish."""
    found: list[tuple[str, Tensor]] = []
    handles = []
    for path, module in model.named_modules():

        def note(module: nn.Module, args: Any, output: Any, path: str = path) -> None:
            tensors = tensors_in(output)
            if tensors:
                found.append((path, tensors[0].double()))

        handles.append(module.register_forward_hook(note))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
