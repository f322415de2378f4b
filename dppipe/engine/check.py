"""The engine's self-check on made-up input: it runs on the user's own model before budget is spent.

The norms and the clipped sum are compared with a loop that takes one row at a time, and a loss that mixes rows is found by
comparing each row's loss in the batch with its loss alone. Chance is taken out (dropout lets everything through), so that both
sides compute the same. What comes back lists how each layer is treated, for `dppipe doctor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dppipe.engine.bounds import bounded_factors
from dppipe.engine.chance import WithoutChance
from dppipe.engine.engine import Engine
from dppipe.engine.losses import batch_rows, take_rows
from dppipe.engine.report import EngineReport, make_report
from dppipe.engine.weights import tensors_in
from dppipe.errors import PrivacyRefusal

TOLERANCE = 1e-3
"""Far above rounding, far below what a wrong formula gives."""
_ADVICE = "Write the layer without in-place changes and hidden state, or ask for the functional engine."


class _Row(NamedTuple):
    """What the loop finds for one row."""

    loss: Tensor
    gradients: dict[str, Tensor]


def check_engine(engine: Engine, batch: Any) -> EngineReport:
    """Compare the engine with a one-row loop on made-up input; refuse the model if they differ.

    Guarantee: on this input the engine's norms and sums are those of per-example gradients, and every row's loss is a function
    of that row alone. Another input could take another path through the model; the engine refuses paths it has not planned.
    """
    batch = _distinct_rows(batch)
    bounds = engine.bounds()
    engine.prepare(batch)
    with torch.autocast(bounds.device.type, enabled=False), WithoutChance():
        rows = [_one_row(engine, take_rows(batch, i, i + 1)) for i in range(batch_rows(batch))]
        _refuse_mixing(engine, batch, rows)
        sums = engine.zeros()
        norms = engine.accumulate(batch, sums, bounds=bounds)
        with torch.no_grad():
            if engine.needs != "projections":  # estimated norms aren't the true ones, and don't claim to be
                _compare_norms(engine, norms, rows)
            _compare_sums(engine, sums, bounded_factors(engine.clipper, norms, bounds), bounds, rows)
        return make_report(engine, batch)


def _one_row(engine: Engine, row: Any) -> _Row:
    with torch.enable_grad():
        loss = engine.per_sample_loss(engine.model, row)
        gradients = torch.autograd.grad(loss.sum(), list(engine.parameters.values()), allow_unused=True, materialize_grads=True)
    return _Row(loss.detach().reshape(()), dict(zip(engine.parameters, gradients, strict=True)))


def _refuse_mixing(engine: Engine, batch: Any, rows: list[_Row]) -> None:
    with torch.no_grad():
        together = engine.per_sample_loss(engine.model, batch)
    if not torch.isfinite(torch.stack([row.loss for row in rows])).all():
        raise PrivacyRefusal(
            "per_sample_loss: expected finite losses on made-up examples, got others, on which nothing can be checked. If the "
            "model has diverged, start anew with a lower learning rate."
        )
    if not _close(together, torch.stack([row.loss for row in rows])):
        raise PrivacyRefusal(
            f"{_first_mixing_module(engine, batch)}: expected each record's loss to depend on that record alone, got another "
            f"loss in a batch than alone. Take out what mixes the records of a batch."
        )


def _compare_norms(engine: Engine, norms: Tensor, rows: list[_Row]) -> None:
    if engine.order == 1:
        sizes = {name: torch.stack([row.gradients[name].abs().sum() for row in rows]) for name in engine.parameters}
        expected = engine.groups.totals(sizes, len(rows), like=norms)
    else:
        squares = {name: torch.stack([row.gradients[name].square().sum() for row in rows]) for name in engine.parameters}
        expected = engine.groups.norms(squares, len(rows), like=norms)
    for column, group in enumerate(engine.groups.names):
        if not _close(norms[:, column], expected[:, column]):
            raise PrivacyRefusal(f"engine: expected the norms of a one-row loop in group {group!r}, got others. {_ADVICE}")


def _compare_sums(engine: Engine, sums: dict[str, Tensor], factors: Tensor, bounds: Tensor, rows: list[_Row]) -> None:
    for name, found in sums.items():
        column = engine.groups.column[name]
        expected = torch.zeros_like(found)
        for factor, row in zip(factors[:, column], rows, strict=True):
            expected += factor * row.gradients[name]
        if not bool((found - expected).abs().max() <= TOLERANCE * bounds[column]):
            raise PrivacyRefusal(f"{name}: expected the clipped sum of a one-row loop, got another. {_ADVICE}")


def _close(found: Tensor, expected: Tensor) -> bool:
    """Whether two vectors agree up to rounding at the size of their largest value; NaN agrees with nothing."""
    return found.shape == expected.shape and bool((found - expected).abs().max() <= TOLERANCE * expected.abs().max() + 1e-9)


def _first_mixing_module(engine: Engine, batch: Any) -> str:
    """Give the path of the first module whose output for a row changes when the row is alone."""
    with torch.no_grad(), _outputs(engine.model) as together:
        engine.per_sample_loss(engine.model, batch)
    with torch.no_grad(), _outputs(engine.model) as alone:
        engine.per_sample_loss(engine.model, take_rows(batch, 0, 1))
    for (path, left), (_, right) in zip(together, alone, strict=False):
        grown = [i for i in range(left.dim()) if left.dim() == right.dim() and left.shape[i] != right.shape[i]]
        if len(grown) == 1 and right.shape[grown[0]] == 1 and not _close(left.narrow(grown[0], 0, 1).flatten(), right.flatten()):
            return path or "model"
    return "per_sample_loss"


@contextmanager
def _outputs(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Note every module's first output tensor for a while, inner modules first."""
    found: list[tuple[str, Tensor]] = []
    handles = [
        module.register_forward_hook(
            lambda module, args, output, path=path: found.extend((path, t.double()) for t in list(tensors_in(output))[:1])
        )
        for path, module in model.named_modules()
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _distinct_rows(batch: Any) -> Any:
    """Make rows of numbers differ, so that a mix of them shows; made-up input may be all zeros."""
    generator = torch.Generator().manual_seed(0)

    def distinct(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or not leaf.dim() or bool((leaf != leaf[:1]).any()):
            return leaf
        return leaf + torch.randn(leaf.shape, generator=generator).to(leaf)

    return tree_map(distinct, batch)
