"""The engine's self-check on made-up input: it runs on the user's own model before budget is spent.

The norms and the clipped sum are compared with those of a loop over single rows, and rows that
affect each other are found by value (`independence.py`). Randomness is removed (dropout keeps
everything), so that both sides compute the same. The report lists how each layer is treated, for
`dppipe doctor`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dppipe.engine.bounds import bounded_factors
from dppipe.engine.checks.chance import WithoutChance
from dppipe.engine.checks.independence import (
    ROWS,
    TOLERANCE,
    Row,
    close,
    distinct_rows,
    evaluate_rows,
    refuse_mixing,
)
from dppipe.engine.checks.report import EngineReport, make_report
from dppipe.engine.engine import Engine
from dppipe.engine.losses import SingletonLoss, take_rows
from dppipe.errors import PrivacyRefusal

_ADVICE = (
    "Write the layer without in-place changes and hidden state, or ask for the functional engine."
)


def check_engine(engine: Engine, batch: Any) -> EngineReport:
    """Compare the engine with a one-row loop on made-up input; refuse the model if they differ.

    Guarantees, on this input:
    - The engine's norms and sums are those of per-example gradients.
    - Every row's loss and gradient are functions of that row alone. (A model whose rows are
      evaluated one at a time is independent by construction.)

    Another input could take another path through the model; the engine refuses paths that its
    layout doesn't have.

    Example:
        >>> import torch
        >>> from dppipe.clipping import Flat
        >>> from dppipe.engine import Engine, check_engine
        >>> loss = lambda model, batch: model(batch[0]).squeeze(1).square()
        >>> with Engine(torch.nn.Linear(3, 1), loss, Flat()) as engine:
        ...     report = check_engine(engine, (torch.randn(4, 3),))  # an error if they differ
    """
    alone = isinstance(engine.per_sample_loss, SingletonLoss)
    batch = take_rows(batch, 0, ROWS) if alone else distinct_rows(batch)
    bounds = engine.bounds()
    engine.prepare(batch)
    with torch.autocast(bounds.device.type, enabled=False), WithoutChance():
        rows = evaluate_rows(engine, batch)
        if not alone:
            refuse_mixing(engine, batch, rows)
        sums = engine.zeros()
        norms = engine.accumulate(batch, sums, bounds=bounds)
        with torch.no_grad():
            if engine.needs != "projections":  # estimated norms differ from the true ones
                _compare_norms(engine, norms, rows)
            factors = bounded_factors(engine.clipper, norms, bounds)
            _compare_sums(engine, sums, factors, bounds, rows)
        return make_report(engine, batch)


def _compare_norms(engine: Engine, norms: Tensor, rows: list[Row]) -> None:
    sizes = {}
    for name in engine.parameters:
        sizes[name] = torch.stack([_size(row.gradients[name], engine.order) for row in rows])
    combine = engine.groups.totals if engine.order == 1 else engine.groups.norms
    expected = combine(sizes, len(rows), like=norms)
    for column, group in enumerate(engine.groups.names):
        if not close(norms[:, column], expected[:, column]):
            raise PrivacyRefusal(
                f"engine: expected the norms of a one-row loop in group {group!r}, got others. "
                f"{_ADVICE}"
            )


def _size(gradient: Tensor, order: int) -> Tensor:
    """Return the sum of absolute values or, of order 2, of squares."""
    return gradient.abs().sum() if order == 1 else gradient.square().sum()


def _compare_sums(
    engine: Engine, sums: dict[str, Tensor], factors: Tensor, bounds: Tensor, rows: list[Row]
) -> None:
    for name, found in sums.items():
        column = engine.groups.column[name]
        expected = torch.zeros_like(found)
        for factor, row in zip(factors[:, column], rows, strict=True):
            expected += factor * row.gradients[name]
        if not bool((found - expected).abs().max() <= TOLERANCE * bounds[column]):
            raise PrivacyRefusal(
                f"{name}: expected the clipped sum of a one-row loop, got another. {_ADVICE}"
            )
