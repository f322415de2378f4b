"""The replica: the copy of a user's module that the private step evaluates.

It shares the trainable parameters with the module and nothing else. Whatever a `training_step`, a
loss or a forward pass writes while it sees records (attributes, lists, metrics, buffers, train or
eval mode) lands on the replica and is undone before the next evaluation. Hooks, validation, loggers
and checkpoints work on the user's own module, which therefore never holds what a record wrote.
Read next: `networks.py`, which has each evaluation start from the clean state.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from types import CellType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from dppipe.errors import PrivacyRefusal
from dppipe.training.module_state import PLAIN, Trail, own_attributes, stateful
from dppipe.training.quiet_trainer import QuietTrainer

VALIDATION_HOOKS = tuple(f"on_validation_{when}" for when in ("start", "epoch_start", "batch_start", "batch_end", "epoch_end"))
FITTED = (
    *("training_step", "validation_step", "backward", "log", "log_dict", "optimizers"),
    *("on_validation_end", *VALIDATION_HOOKS),
)
"""What stands on the user's module while it is fitted, and must not be copied."""


class Replica:
    """A copy of a module that shares its trainable parameters.

    Guarantee: what is evaluated on `module` changes neither the user's module nor a later
    evaluation, as far as its own code keeps state on modules. State that it keeps elsewhere, in
    global variables or files, is that code's own affair.
    """

    def __init__(self, original: nn.Module, *, trainer: Any = None) -> None:
        self._original = original
        self._trainer = QuietTrainer(trainer) if trainer is not None else None
        shared = shared_objects(original)
        self.start = {
            name: lazy_copy(tensor)
            for name, tensor in original.state_dict().items()
            if isinstance(tensor, Tensor) and name not in _trainable_names(original)
        }
        """Buffers and frozen parameters as they were at the start, by their names."""
        self.module = _copy(original, shared | _attribute_copies(original))
        self._pairs = list(zip(original.modules(), self.module.modules(), strict=True))
        self._memo = shared | {id(module): twin for module, twin in self._pairs}
        self._stateful = [path for path, _ in stateful(original)]
        self._flags = [(twin, twin.training) for _, twin in self._pairs]
        self._held = list(_held(self.module))
        self._kept = [(tensor, lazy_copy(tensor)) for _, _, tensor in self._held]
        if self._trainer is not None:
            self._trainer.attach(self.module)
        self._public = self._trail(original)
        self._copy_attributes()

    @property
    def has_own_code(self) -> bool:
        """Whether any module's code isn't torch's own, so that an evaluation could write state."""
        return bool(self._stateful)

    @property
    def written(self) -> bool:
        """Whether evaluations have left anything on the attributes of the replica."""
        return not self._trail(self.module).same_as(self._clean)

    def restore(self) -> None:
        """Undo what evaluations have left: attributes, modes, buffers and frozen parameters."""
        if not self._stateful:
            return
        for twin, training in self._flags:
            if twin.training is not training:
                twin.training = training
        for (holder, name, tensor), (_, kept) in zip(self._held, self._kept, strict=True):
            if holder.get(name) is not tensor:
                holder[name] = tensor
            if not untouched(tensor):
                tensor.data = lazy_copy(kept)
        if self.written:
            self._copy_attributes()

    def follow(self) -> None:
        """Take over what hooks have changed on the user's module: that depends on no record."""
        if self._stateful:
            public = self._trail(self._original)
            if not public.same_as(self._public):
                self._public = public
                self._copy_attributes()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Undo what an evaluation writes into the trainable parameters themselves."""
        if not self._stateful:
            yield
            return
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        kept = [lazy_copy(parameter) for parameter in parameters]
        try:
            yield
        finally:
            for parameter, value in zip(parameters, kept, strict=True):
                if not untouched(parameter):
                    parameter.data = value

    def _trail(self, model: nn.Module) -> Trail:
        return Trail(model.get_submodule(path) for path in self._stateful)

    def _copy_attributes(self) -> None:
        memo = dict(self._memo)
        for path in self._stateful:
            source = self._original.get_submodule(path)
            twin = self.module.get_submodule(path)
            wanted = own_attributes(source)
            for name in own_attributes(twin).keys() - wanted.keys():
                del twin.__dict__[name]
            for name, value in wanted.items():
                # A function that a class has put on its instance is bound to it: the twin has its own.
                bound = isinstance(value, FunctionType) and twin.__dict__.get(name, value) is not value
                if name not in FITTED and not bound:
                    twin.__dict__[name] = copy_value(value, memo)
        self._mute()
        self._clean = self._trail(self.module)

    def _mute(self) -> None:
        """Take off what the fit has put on the module, and let nothing be logged from here."""
        for _, twin in self._pairs:
            if any(base.__name__ == "LightningModule" for base in type(twin).__mro__):
                for name in FITTED:
                    twin.__dict__.pop(name, None)
                twin.__dict__["log"] = twin.__dict__["log_dict"] = _ignore
                twin.__dict__["_trainer"] = self._trainer
                if self._trainer is not None:
                    twin.__dict__["optimizers"] = self._trainer.optimizer_views


def _ignore(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def _copy(original: nn.Module, memo: dict[int, Any]) -> nn.Module:
    try:
        return copy.deepcopy(original, dict(memo))
    except Exception as error:
        raise PrivacyRefusal(
            f"model: expected a module that can be copied, got {type(original).__name__}, which "
            f"can't ({type(error).__name__} at {_culprit(original, memo)}). The private step works "
            "on a copy, so that no record writes into the model. Keep that object elsewhere."
        ) from error


def _culprit(original: nn.Module, memo: dict[int, Any]) -> str:
    for path, module in original.named_modules():
        for name, value in own_attributes(module).items():
            try:
                copy.deepcopy(value, dict(memo))
            except Exception:
                return f"{path}.{name}".lstrip(".")
    return type(original).__name__


def copy_value(value: Any, memo: dict[int, Any]) -> Any:
    """Return a copy of an attribute; `memo` says what stands for objects that aren't copied."""
    if isinstance(value, FunctionType):
        return _rebound(value, memo)
    if type(value) in PLAIN:
        return value
    if isinstance(value, Tensor) and id(value) not in memo:
        return lazy_copy(value)
    return copy.deepcopy(value, memo)


def _rebound(function: FunctionType, memo: dict[int, Any]) -> FunctionType:
    """Return a function that sees the replica where it has captured the module itself."""
    cells = function.__closure__ or ()
    if not any(id(_content(cell)) in memo for cell in cells):
        return function
    closure = tuple(CellType(memo.get(id(_content(cell)), _content(cell))) for cell in cells)
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that isn't bound yet
        return None


def shared_objects(original: nn.Module, *, frozen: bool = True) -> dict[int, Any]:
    """Return, by identity, what stands for each object of a module in a copy.

    With `frozen`, buffers and frozen parameters are copied; without it all tensors and modules stand
    for themselves.
    """
    memo: dict[int, Any] = {}
    for parameter in original.parameters():
        copied = frozen and not parameter.requires_grad
        memo[id(parameter)] = _frozen_copy(parameter) if copied else parameter
    for buffer in original.buffers():
        memo[id(buffer)] = lazy_copy(buffer) if frozen else buffer
    if not frozen:
        memo |= {id(module): module for module in original.modules()}
    for module in original.modules():
        for value in own_attributes(module).values():
            if isinstance(value, (Dataset, DataLoader)):
                memo[id(value)] = value
    return memo


def _attribute_copies(original: nn.Module) -> dict[int, Any]:
    """Return, by identity, what stands for attributes that can't or mustn't be copied as they are."""
    memo: dict[int, Any] = {}
    for module in original.modules():
        for name, value in own_attributes(module).items():
            if name in FITTED:
                memo[id(value)] = None
            elif isinstance(value, Tensor):
                memo[id(value)] = lazy_copy(value)
    return memo


def _frozen_copy(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(lazy_copy(parameter), requires_grad=False)


def _trainable_names(model: nn.Module) -> set[str]:
    named = model.named_parameters(remove_duplicate=False)
    return {name for name, parameter in named if parameter.requires_grad}


def _held(model: nn.Module) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    """Yield every buffer and frozen parameter with the dictionary that holds it."""
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                yield module._buffers, name, buffer
        for name, parameter in module._parameters.items():
            if parameter is not None and not parameter.requires_grad:
                yield module._parameters, name, parameter


def lazy_copy(tensor: Tensor) -> Tensor:
    """Return a copy that takes memory only once either of the two is written to."""
    plain = tensor.detach()
    try:
        return plain._lazy_clone()
    except (RuntimeError, AttributeError):  # memory that torch doesn't own, such as NumPy's
        return plain.clone()


def untouched(tensor: Tensor) -> bool:
    """Return whether a tensor still shares its memory with its lazy copy: nobody wrote to it."""
    return bool(torch._C._is_cow_tensor(tensor))  # type: ignore[attr-defined]
