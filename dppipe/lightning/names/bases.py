"""Base classes of dppipe's own callbacks, modules, strategies and checkpoint plug-ins.

A Trainer takes only objects of its own import name's classes, and which name a user works with is
known when an object is made, not when dppipe is imported. So `DPCallback(...)` makes an object of a
class that derives from `DPCallback` and from Lightning's own `Callback`. It derives from the class
of every loaded import name where that is harmless (`Callback` and `TorchCheckpointIO` only hold
methods), and of one elsewhere. Deriving from these classes doesn't load Lightning; making an object
does.
"""

from __future__ import annotations

import types
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from dppipe.lightning.names.namespaces import chosen_name, every_name, library


class _Joined:
    """Derives each object from Lightning's class as well."""

    lightning_class: ClassVar[str] = ""
    lightning_home: ClassVar[str] = ""
    joined_from: ClassVar[type | None] = None
    joined_names: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object of the class that is joined with the loaded import names' own."""
        return _make(cls, every_name())

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle by the class that can be imported: the joined class can't be."""
        state = super().__reduce_ex__(protocol)[2:]
        return _make, (self.joined_from, self.joined_names), *state


class _JoinedOnce(_Joined):
    """Derives each object from the class of one import name."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object of the class that is joined with one import name's own."""
        return _make(cls, (chosen_name(),))


def settle(thing: Any, name: str | None) -> None:
    """Derive an object from one import name's class, once its Trainer is known."""
    if name is not None and thing.joined_names != (name,):
        thing.__class__ = _join(thing.joined_from, (name,))


def _make(cls: Any, names: tuple[str, ...]) -> Any:
    return object.__new__(cls if cls.joined_from is not None else _join(cls, names))


@cache
def _join(cls: Any, names: tuple[str, ...]) -> type:
    """Make the class that derives from `cls` and from Lightning's class of these import names."""
    theirs = [getattr(library(name, cls.lightning_home), cls.lightning_class) for name in names]
    bases = (cls, *(each for each in theirs if not issubclass(cls, each)))
    joined: Any = types.new_class(cls.__name__, bases)
    joined.__module__ = cls.__module__
    joined.__qualname__ = cls.__qualname__
    joined.__doc__ = cls.__doc__
    joined.joined_from = cls
    joined.joined_names = names
    return joined  # type: ignore[no-any-return]


if TYPE_CHECKING:
    from pytorch_lightning import Callback as Callback
    from pytorch_lightning import LightningModule as LightningModule
    from pytorch_lightning.plugins.io import TorchCheckpointIO as TorchCheckpointIO
    from pytorch_lightning.strategies import DDPStrategy as DDPStrategy
else:

    class Callback(_Joined):
        """Becomes Lightning's `Callback` when an object is made."""

        lightning_class = "Callback"
        lightning_home = "callbacks"

    class TorchCheckpointIO(_Joined):
        """Becomes Lightning's `TorchCheckpointIO` when an object is made."""

        lightning_class = "TorchCheckpointIO"
        lightning_home = "plugins.io"

    class DDPStrategy(_Joined):
        """Becomes Lightning's `DDPStrategy`; in its Trainer it settles on one import name."""

        lightning_class = "DDPStrategy"
        lightning_home = "strategies"

    class LightningModule(_JoinedOnce):
        """Becomes Lightning's `LightningModule` when an object is made."""

        lightning_class = "LightningModule"
        lightning_home = "core"
