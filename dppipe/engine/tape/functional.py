"""Per-sample gradients by `torch.func`: exact for any model, with one gradient held for every row.

Each row is evaluated as a batch of its own, under `vmap` where the model allows it and in a loop
where it doesn't.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dppipe.engine.contracts import PerSampleLoss
from dppipe.engine.losses import batch_rows, take_rows

VMAP_REFUSALS = (RuntimeError, ValueError, TypeError, NotImplementedError)
"""Errors of `vmap` on a model it can't run. The loop raises errors of the model itself again."""


@contextmanager
def quiet_vmap() -> Iterator[None]:
    """Silence torch's warning about operations that vmap runs in a loop; they are still right."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="There is a performance drop", category=UserWarning
        )
        yield


class _RowLoss(nn.Module):
    """The loss of one row as a module, so that `functional_call` can replace its parameters."""

    def __init__(self, model: nn.Module, per_sample_loss: PerSampleLoss) -> None:
        super().__init__()
        self.model = model
        self.per_sample_loss = per_sample_loss

    def forward(self, row: Any) -> Tensor:
        return self.per_sample_loss(self.model, row).squeeze(0)


class FunctionalGradients:
    """Materialised per-sample gradients of a model's loss."""

    def __init__(self, model: nn.Module, per_sample_loss: PerSampleLoss) -> None:
        self._loss = _RowLoss(model, per_sample_loss)
        self._vmap = True
        self.settled = False
        """Whether errors no longer change how later batches run, as records may cause them."""

    def __call__(
        self, parameters: Mapping[str, Tensor], batch: Any
    ) -> dict[str, Tensor]:  # -> {name: [B, ...]}
        """Return each parameter's gradient for every row."""
        detached = {name: parameter.detach() for name, parameter in parameters.items()}
        if self._vmap:
            try:
                with quiet_vmap():
                    return self._by_vmap(detached, batch)
            except VMAP_REFUSALS:
                self._vmap = self.settled
        return self._by_loop(detached, batch)

    def _row_loss(self, parameters: dict[str, Tensor], row: Any) -> Tensor:
        named = {f"model.{name}": value for name, value in parameters.items()}
        loss: Tensor = torch.func.functional_call(self._loss, named, (row,))
        return loss

    def _by_vmap(self, parameters: dict[str, Tensor], batch: Any) -> dict[str, Tensor]:
        def as_batch(leaf: Any) -> Any:
            return leaf.unsqueeze(0) if isinstance(leaf, Tensor) else leaf

        def row_axis(leaf: Any) -> int | None:
            return 0 if isinstance(leaf, Tensor) and leaf.dim() else None

        def row_loss(values: dict[str, Tensor], row: Any) -> Tensor:
            return self._row_loss(values, tree_map(as_batch, row))

        axes = tree_map(row_axis, batch)
        row_gradient = torch.func.grad(row_loss)
        mapped = torch.func.vmap(row_gradient, in_dims=(None, axes), randomness="different")
        gradients: dict[str, Tensor] = mapped(parameters, batch)
        return gradients

    def _by_loop(self, parameters: dict[str, Tensor], batch: Any) -> dict[str, Tensor]:
        rows: list[dict[str, Tensor]] = []
        for i in range(batch_rows(batch)):
            leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
            with torch.enable_grad():
                loss = self._row_loss(leaves, take_rows(batch, i, i + 1))
            found = torch.autograd.grad(
                loss, list(leaves.values()), allow_unused=True, materialize_grads=True
            )
            rows.append(dict(zip(leaves, found, strict=True)))
        gradients = {}
        for name in parameters:
            gradients[name] = torch.stack([row[name] for row in rows])
        return gradients
