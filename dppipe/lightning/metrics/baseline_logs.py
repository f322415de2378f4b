"""What a module logs in a step of the baseline without a budget: nothing has to be hidden.

The step evaluates a `training_step` on one example at a time, so that it can be compared with the
private one. What the module logs on each example is averaged and logged once for the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from dppipe.lightning.patches import Patches

if TYPE_CHECKING:
    import pytorch_lightning as pl


class StepLogs:
    """Collects what a module logs on the examples of one step."""

    def __init__(self, module: pl.LightningModule) -> None:
        self._module = module
        self._values: dict[str, list[Any]] = {}
        self._options: dict[str, dict[str, Any]] = {}

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Log the mean of each value over the examples of the block, when it ends."""
        self._values = {}
        patches = Patches()
        patches.put(self._module, "log", self._keep)
        patches.put(self._module, "log_dict", self._keep_all)
        try:
            yield
        finally:
            patches.undo()
        for name, values in self._values.items():
            options = self._options[name] | {"batch_size": len(values)}
            self._module.log(name, _mean(values), **options)

    def _keep(self, name: str, value: Any, *args: Any, **options: Any) -> None:
        if isinstance(value, torch.Tensor):
            value = value.detach()
        self._values.setdefault(name, []).append(value)
        self._options[name] = dict(zip(("prog_bar", "logger"), args, strict=False)) | options

    def _keep_all(self, values: Mapping[str, Any], *args: Any, **options: Any) -> None:
        for name, value in values.items():
            self._keep(name, value, *args, **options)


def _mean(values: list[Any]) -> Any:
    """Return the mean of numbers; of metrics, which sum up by themselves, return the last."""
    means: list[torch.Tensor] = []
    for value in values:
        if not isinstance(value, torch.Tensor | int | float):
            return values[-1]
        means.append(torch.as_tensor(value, dtype=torch.float32).mean())
    return torch.stack(means).mean()
