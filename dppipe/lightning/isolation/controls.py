"""A snapshot of what decides how training goes on: Trainer, loops, optimizers and schedulers."""

from __future__ import annotations

import copy
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from dppipe.lightning.isolation.module_copies import lazy_copy, untouched

if TYPE_CHECKING:
    import pytorch_lightning as pl


class Controls:
    """The controls of a Trainer as they were, to be put back after code that may not use them.

    Code that scores a private holdout sees its records without noise. If it could stop the run,
    move its limits or change the learning rate, the trained weights would follow those records.
    """

    def __init__(self, trainer: pl.Trainer) -> None:
        loop = trainer.fit_loop
        owners = (trainer, loop, loop.epoch_loop, loop.epoch_loop.automatic_optimization)
        self._owners = [_Attributes(owner) for owner in owners]
        self._optimizers = [_OptimizerState(optimizer) for optimizer in trainer.optimizers]
        self._schedulers: list[tuple[Any, Any]] = []
        for config in trainer.lr_scheduler_configs:
            state = copy.deepcopy(config.scheduler.state_dict())
            self._schedulers.append((config.scheduler, state))

    def restore(self) -> None:
        """Put everything back as it was."""
        for owner in self._owners:
            owner.restore()
        for scheduler, state in self._schedulers:
            scheduler.load_state_dict(state)
        for optimizer in self._optimizers:
            optimizer.restore()


class _Attributes:
    """The public attributes of a Trainer or a loop: limits, flags, counters and lists."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._values = _public(owner)
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._counters: list[tuple[Any, dict[str, Any]]] = []
        for value in self._values.values():
            if isinstance(value, list):
                self._lists.append((value, list(value)))
            elif is_dataclass(value):
                self._counters.append((value, copy.deepcopy(vars(value))))

    def restore(self) -> None:
        for name in _public(self._owner).keys() - self._values.keys():
            del vars(self._owner)[name]
        vars(self._owner).update(self._values)
        for value, items in self._lists:
            value[:] = items
        for counter, before in self._counters:
            vars(counter).update(before)


def _public(owner: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if not name.startswith("_")}


class _OptimizerState:
    """The settings of an optimizer's groups, and what it keeps for each parameter."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._groups = [(group, _copied(group)) for group in optimizer.param_groups]
        self._state = {parameter: _copied(state) for parameter, state in optimizer.state.items()}

    def restore(self) -> None:
        self._optimizer.param_groups[:] = [group for group, _ in self._groups]
        for group, before in self._groups:
            _put_back(group, before)
        state = self._optimizer.state
        for parameter in state.keys() - self._state.keys():
            del state[parameter]
        for parameter, before in self._state.items():
            _put_back(state[parameter], before)


class _Kept(NamedTuple):
    """A tensor, and a copy of its values."""

    tensor: Tensor
    values: Tensor


def _copied(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with a copy of each tensor, beside the tensor itself."""
    copied: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Tensor):
            copied[name] = _Kept(value, lazy_copy(value))
        else:
            copied[name] = list(value) if isinstance(value, list) else value
    return copied


def _put_back(settings: dict[str, Any], before: dict[str, Any]) -> None:
    for name in settings.keys() - before.keys():
        del settings[name]
    for name, value in before.items():
        if isinstance(value, _Kept):
            settings[name] = value.tensor
            if not untouched(value.tensor):
                value.tensor.data = value.values
        else:
            settings[name] = value
