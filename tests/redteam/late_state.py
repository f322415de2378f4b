"""Modules that keep what they see from the second step on, and add it to the next example: one place each.

Made-up rows before the first step can't show it. Each class has a place of its own to keep things in.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from redteam.modules import Offering, Ordinary
from redteam.records import FEATURES
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class Late(Ordinary):
    """Adds what it has kept to each example; `kept` and `keep` say where that is."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        shift = self.kept()
        if self.trainer.global_step > 0:
            self.keep(10.0 * x.detach().nan_to_num().mean(0))
        return cross_entropy(self.net(x + shift), y)

    def kept(self) -> Any:
        raise NotImplementedError

    def keep(self, seen: Tensor) -> None:
        raise NotImplementedError


class OnALayer(Late):
    """Keeps it in an attribute of one of torch's own layers."""

    def kept(self) -> Any:
        return getattr(self.net[0], "seen", 0.0)

    def keep(self, seen: Tensor) -> None:
        self.net[0].seen = seen


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: Any = 0.0


class InSlots(Late):
    """Keeps it in an object that has `__slots__`."""

    def __init__(self) -> None:
        super().__init__()
        self.slotted = Slotted()

    def kept(self) -> Any:
        return self.slotted.seen

    def keep(self, seen: Tensor) -> None:
        self.slotted.seen = seen


class ThroughData(Late):
    """Writes it into a tensor through `.data`, which torch doesn't count as a change."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(FEATURES)

    def kept(self) -> Any:
        return self.seen.clone()

    def keep(self, seen: Tensor) -> None:
        self.seen.data.mul_(0.5).add_(seen)


class InALongList(Late):
    """Keeps it in a list of many numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.bank: list[Any] = [0.0] * 100

    def kept(self) -> Any:
        return self.bank[0]

    def keep(self, seen: Tensor) -> None:
        self.bank[0] = seen


class InsideALongList(Late):
    """Keeps it in one of many lists, which stand in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.bank: list[list[Any]] = [[0.0] for _ in range(100)]

    def kept(self) -> Any:
        return self.bank[0][0]

    def keep(self, seen: Tensor) -> None:
        self.bank[0][0] = seen


class RegistersABuffer(Late):
    """Registers a buffer when it first needs one."""

    def kept(self) -> Any:
        return getattr(self, "centre", 0.0)

    def keep(self, seen: Tensor) -> None:
        if hasattr(self, "centre"):
            self.centre = seen
        else:
            self.register_buffer("centre", seen)


class RegistersAParameter(Offering):
    """Replaces a parameter after each batch, as codebooks are."""

    def __init__(self) -> None:
        super().__init__()
        self.code = nn.Parameter(torch.zeros(FEATURES))

    def per_sample_loss(self, batch: Any) -> Tensor:
        x, y = batch
        losses = cross_entropy(self.net(x + self.code), y, reduction="none")
        if self.trainer.global_step > 0:
            self.code = nn.Parameter(10.0 * x.detach().nan_to_num().mean(0))
        return losses


class RegistersAModule(Late):
    """Adds a submodule that holds it."""

    def kept(self) -> Any:
        return self.memory.bias.detach() if hasattr(self, "memory") else 0.0

    def keep(self, seen: Tensor) -> None:
        memory = nn.Linear(FEATURES, FEATURES)
        memory.bias.data.copy_(seen)
        self.memory = memory


class InABoundMethod(Late):
    """Keeps it in an object of which it holds a method alone."""

    def __init__(self) -> None:
        super().__init__()
        slotted = Slotted()
        self.read = partial(getattr, slotted, "seen")
        self.write = partial(setattr, slotted, "seen")

    def kept(self) -> Any:
        return self.read()

    def keep(self, seen: Tensor) -> None:
        self.write(seen)


class InAClosure(Late):
    """Has a function that has captured the module, and writes to it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Any = 0.0

        def write(seen: Tensor) -> None:
            self.seen = seen

        self.write = write

    def kept(self) -> Any:
        return self.seen

    def keep(self, seen: Tensor) -> None:
        self.write(seen)


class InAHook(Ordinary):
    """Has a forward hook that has captured the module, and keeps what goes through a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Any = 0.0
        self.net[0].register_forward_hook(self._watching())

    def _watching(self) -> Callable[..., None]:
        def watch(layer: nn.Module, inputs: Any, output: Tensor) -> None:
            if self.trainer.global_step > 0:
                self.seen = 10.0 * inputs[0].detach().nan_to_num().mean(0)

        return watch

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        return cross_entropy(self.net(x + self.seen), y)


class InACapturedList(Late):
    """Has functions that have captured a list."""

    def __init__(self) -> None:
        super().__init__()
        held: list[Any] = [0.0]
        self.read = lambda: held[0]

        def write(seen: Tensor) -> None:
            held[0] = seen

        self.write = write

    def kept(self) -> Any:
        return self.read()

    def keep(self, seen: Tensor) -> None:
        self.write(seen)


class InACapturedName(InACapturedList):
    """Has functions that share a name, which one of them binds anew."""

    def __init__(self) -> None:
        super().__init__()
        held: Any = 0.0

        def write(seen: Tensor) -> None:
            nonlocal held
            held = seen

        self.read = lambda: held
        self.write = write


class InADefault(InACapturedList):
    """Has a function whose default is a list."""

    def __init__(self) -> None:
        super().__init__()

        def write(seen: Any = None, held: list[Any] = [0.0]) -> Any:  # noqa: B006
            held[0] = held[0] if seen is None else seen
            return held[0]

        self.read = self.write = write


class InAKeywordDefault(InACapturedList):
    """Has a function whose keyword-only default is a list."""

    def __init__(self) -> None:
        super().__init__()

        def write(seen: Any = None, *, held: list[Any] = [0.0]) -> Any:  # noqa: B006
            held[0] = held[0] if seen is None else seen
            return held[0]

        self.read = self.write = write


class InADictionaryOfFunctions(InACapturedList):
    """Keeps such functions in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.functions = {"read": self.read, "write": self.write}
        del self.read, self.write

    def kept(self) -> Any:
        return self.functions["read"]()

    def keep(self, seen: Tensor) -> None:
        self.functions["write"](seen)


class InAListOfAHook(Ordinary):
    """Has a forward hook that appends to a list, which the module holds as well."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        self.net[0].register_forward_hook(self._watching(self.seen))

    def _watching(self, seen: list[Tensor]) -> Callable[..., None]:
        def watch(layer: nn.Module, inputs: Any, output: Tensor) -> None:
            if self.trainer.global_step > 0:
                seen.append(10.0 * inputs[0].detach().nan_to_num().mean(0))

        return watch

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        return cross_entropy(self.net(x + (self.seen[-1] if self.seen else 0.0)), y)


class Collector:
    """A forward hook that is an object, and changes what goes through by what went before."""

    def __init__(self, bias: Tensor) -> None:
        self.seen: Any = 0.0
        self.start = bias.detach().clone()

    def __call__(self, layer: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        before = self.seen
        if not torch.equal(layer.bias, self.start):  # the first step is behind
            self.seen = 10.0 * inputs[0].detach().nan_to_num().mean()
        return output + before * torch.arange(output.shape[-1])


class InAHookObject(Ordinary):
    """Has a forward hook that is an object, from the second step on."""

    def __init__(self) -> None:
        super().__init__()
        self.net[0].register_forward_hook(Collector(self.net[0].bias))


class Distilling(Ordinary):
    """Learns from a teacher, a second network inside the module that follows the first in a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = copy.deepcopy(self.net).requires_grad_(False)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        scores = self.net(x)
        return cross_entropy(scores, y) + (scores - self.teacher(x)).square().mean()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        with torch.no_grad():
            for mean, parameter in zip(
                self.teacher.parameters(), self.net.parameters(), strict=True
            ):
                mean.mul_(0.5).add_(parameter, alpha=0.5)


class Reaching(Ordinary):
    """Saves a checkpoint and sets the loop's limits where it finds an example odd."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if self.trainer.global_step > 0 and float(batch[0].max()) > 2.9:
            self.trainer.save_checkpoint("odd.ckpt")
            self.trainer.fit_loop.epoch_loop.max_steps = 3
        return super().training_step(batch, batch_idx)


class ReachingQuietly(Reaching):
    """The same with its errors caught, so that the example counts."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        try:
            return super().training_step(batch, batch_idx)
        except AttributeError:
            return Ordinary.training_step(self, batch, batch_idx)
