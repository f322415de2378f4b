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
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from dppipe.errors import PrivacyRefusal
from dppipe.lightning.isolation.held_objects import find_held
from dppipe.lightning.isolation.module_copies import (
    LOCKS,
    attribute_copies,
    copy_hooks,
    copy_value,
    held_tensors,
    lazy_copy,
    registers,
    replaced,
    shared_objects,
    trainable_names,
    untouched,
)
from dppipe.lightning.isolation.module_state import (
    PATCHED,
    Fingerprint,
    hooks_of,
    own_attributes,
    stateful,
)
from dppipe.lightning.isolation.own_generators import GENERATORS, find_generators
from dppipe.lightning.isolation.read_only_trainer import ReadOnlyTrainer


class Replica:
    """A copy of a module that shares its trainable parameters.

    Guarantee: what is evaluated on `module` changes neither the user's module nor a later
    evaluation, as far as its own code keeps state on modules. State in global variables or files is
    not covered.
    """

    def __init__(self, original: nn.Module, *, trainer: Any = None) -> None:
        self._original = original
        self._trainer = ReadOnlyTrainer(trainer) if trainer is not None else None
        shared = shared_objects(original)
        self.start: dict[str, Tensor] = {}
        """Buffers and frozen parameters as they were at the start, by their names."""
        trained = trainable_names(original)
        for name, tensor in original.state_dict().items():
            if isinstance(tensor, Tensor) and name not in trained:
                self.start[name] = lazy_copy(tensor)
        self.module = _copy(original, shared | attribute_copies(original))
        self._pairs = list(zip(original.modules(), self.module.modules(), strict=True))
        self._memo = shared | {id(module): twin for module, twin in self._pairs}
        # User code can write to every module of the tree, torch's own layers included.
        paths = [path for path, _ in original.named_modules()]
        self._stateful = paths if stateful(original) else []
        self._flags: list[tuple[nn.Module, bool]] = []
        self._registered: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for _, twin in self._pairs:
            self._flags.append((twin, twin.training))
            self._registered += [(held, dict(held)) for held in registers(twin)]
        self._trainable = [p for p in self.module.parameters() if p.requires_grad]
        self._guarded: list[tuple[Tensor, Tensor]] = []
        self._sources = [(holder, name) for holder, name, _ in held_tensors(original)]
        self._held = list(held_tensors(self.module))
        self._kept = [(tensor, lazy_copy(tensor)) for _, _, tensor in self._held]
        self._found: list[Any] = []
        self.generators: list[Any] = []
        """The random generators that the replica keeps."""
        self._own_functions = self._find_own_functions()
        if self._trainer is not None:
            self._trainer.attach(self.module)
        self._public = self._fingerprint(original)
        self._copy_attributes()

    @property
    def has_own_code(self) -> bool:
        """Whether any module's code isn't torch's own, so that an evaluation could write state."""
        return bool(self._stateful)

    @property
    def written(self) -> bool:
        """Whether evaluations have left anything on the attributes of the replica."""
        return not self._fingerprint(self.module).same_as(self._clean)

    def restore(self) -> None:
        """Undo what evaluations have left: attributes, modes, buffers and frozen parameters."""
        if not self._stateful:
            return
        with torch._C._DisableFuncTorch():  # a step may be under vmap
            for twin, training in self._flags:
                if twin.training is not training:
                    twin.training = training
            for held, names in self._registered:
                if replaced(held, names):
                    held.clear()
                    held.update(names)
            for tensor, kept in self._kept:
                if not untouched(tensor):
                    tensor.data = lazy_copy(kept)
            for tensor, kept in self._guarded:
                if not untouched(tensor):
                    # In place: the tensor that torch.func uses instead shares its memory.
                    tensor.detach().copy_(kept)
            if self.written:
                self._copy_attributes()

    def follow(self) -> None:
        """Copy what hooks have changed on the user's module: that depends on no record."""
        if self._stateful:
            for number, (holder, name) in enumerate(self._sources):
                source = holder.get(name)
                if isinstance(source, Tensor) and not untouched(source):
                    tensor, _ = self._kept[number]
                    self._kept[number] = tensor, lazy_copy(source)
                    tensor.data = lazy_copy(source)
            public = self._fingerprint(self._original)
            if not public.same_as(self._public):
                self._public = public
                self._copy_attributes()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Undo what an evaluation writes into the trainable parameters themselves."""
        if not self._stateful:
            yield
            return
        frozen = [parameter for parameter in self._trainable if not parameter.requires_grad]
        self._guarded = [(parameter, lazy_copy(parameter)) for parameter in self._trainable]
        for parameter in frozen:  # by a hook: the step goes on, and the gradient isn't used
            parameter.requires_grad_(True)
        try:
            yield
        finally:
            for tensor, value in self._guarded:
                if not untouched(tensor):
                    tensor.data = value
            self._guarded = []
            for parameter in frozen:
                parameter.requires_grad_(False)

    def _fingerprint(self, model: nn.Module) -> Fingerprint:
        if not self._stateful:
            return Fingerprint(())
        modules = []
        hooks: list[Any] = []
        for source, twin in self._pairs:
            module = source if model is self._original else twin
            modules.append(module)
            hooks += hooks_of(module, like=source)
        return Fingerprint(modules, hooks)

    def _find_own_functions(self) -> set[tuple[str, str]]:
        """Return the functions that a class puts on each instance: the replica has its own."""
        found: set[tuple[str, str]] = set()
        for path in self._stateful:
            twin = self.module.get_submodule(path)
            for name, value in own_attributes(self._original.get_submodule(path)).items():
                if isinstance(value, FunctionType) and twin.__dict__.get(name, value) is not value:
                    found.add((path, name))
        return found

    def _share_found(self) -> None:
        """Keep the replica's generators and locks when its attributes are copied within a step.

        A step seeds generators in secret. A record that has attributes restored may not undo that
        for others.
        """
        for held in find_held([self._original], (*GENERATORS, *LOCKS)):
            if id(held) not in self._memo:
                self._found.append(held)  # kept alive, so that its id stays its own
                self._memo[id(held)] = held if isinstance(held, LOCKS) else copy.deepcopy(held)

    def _copy_attributes(self) -> None:
        self._share_found()
        memo = dict(self._memo)
        for path in self._stateful:
            source = self._original.get_submodule(path)
            twin = self.module.get_submodule(path)
            wanted = own_attributes(source)
            for name in own_attributes(twin).keys() - wanted.keys():
                del twin.__dict__[name]
            for name, value in wanted.items():
                if name not in PATCHED and (path, name) not in self._own_functions:
                    twin.__dict__[name] = copy_value(value, memo)
            copy_hooks(source, twin, memo)
        self._mute()
        self._clean = self._fingerprint(self.module)
        self.generators = find_generators(self.module)

    def _mute(self) -> None:
        """Remove what the fit has put on the module, and let nothing be logged from here."""
        for _, twin in self._pairs:
            if any(base.__name__ == "LightningModule" for base in type(twin).__mro__):
                for name in PATCHED:
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
            "on a copy, so that no record writes into the model. Make that object where it is "
            "used, or give its class a __deepcopy__ that shares what no record changes."
        ) from error


def _culprit(original: nn.Module, memo: dict[int, Any]) -> str:
    for path, module in original.named_modules():
        for name, value in own_attributes(module).items():
            try:
                copy.deepcopy(value, dict(memo))
            except Exception:
                return f"{path}.{name}".lstrip(".")
    return type(original).__name__
