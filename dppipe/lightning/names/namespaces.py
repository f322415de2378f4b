"""Lightning's two import names: `pytorch_lightning` and `lightning.pytorch`.

The two packages hold the same code, but their classes are different ones. So every check of a
user's module, Trainer, callback or exception looks at both. Loading either takes seconds, so only
names that the process has loaded already are looked at.
Read next: `bases.py`, the base classes of dppipe's own callbacks, modules and strategies.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

NAMES = ("pytorch_lightning", "lightning.pytorch")
"""Both import names; dppipe depends on the first, and uses it where the user has chosen none."""


def loaded_names() -> tuple[str, ...]:
    """Return the import names that this process has loaded."""
    return tuple(name for name in NAMES if hasattr(sys.modules.get(name), "Trainer"))


def chosen_name() -> str:
    """Return the import name for what dppipe makes itself: a loaded one, where there is one."""
    return next(iter(loaded_names()), NAMES[0])


def every_name() -> tuple[str, ...]:
    """Return the import names of the Trainers that this process may make.

    Where none is loaded yet nobody knows which one the user will import, so all that are installed
    are loaded: the second takes a fifth of a second after the first.
    """
    if not loaded_names():
        for name in NAMES:
            if importlib.util.find_spec(name.partition(".")[0]) is not None:
                with suppress(ModuleNotFoundError):  # some other package that is called lightning
                    importlib.import_module(name)
    return loaded_names()


def name_of(thing: object) -> str | None:
    """Return the import name that an object's class comes from; None if it is neither's."""
    for cls in type(thing).__mro__:
        for name in NAMES:
            if f"{cls.__module__}.".startswith(f"{name}."):
                return name
    return None


def library(name: str, home: str = "") -> ModuleType:
    """Import and return the package with this import name, or its module `home`."""
    return importlib.import_module(f"{name}.{home}" if home else name)


def classes(name: str, *, home: str = "callbacks") -> tuple[type[Any], ...]:
    """Return the classes with this name in the module `home` of every loaded import name.

    The tuple goes into `isinstance` and `except`. It is empty where Lightning isn't loaded, as no
    such object can exist then.
    """
    return tuple(getattr(library(each, home), name) for each in loaded_names())


def exceptions(name: str) -> tuple[type[BaseException], ...]:
    """Return the exceptions with this name of every loaded import name, for `except` clauses."""
    return classes(name, home="utilities.exceptions")


def is_lightning_module(thing: object) -> bool:
    """Return whether an object is a LightningModule of either import name."""
    return isinstance(thing, classes("LightningModule", home="core"))


def is_overridden(hook: str, module: object) -> bool:
    """Return whether a LightningModule of either import name brings a hook of its own."""
    name = name_of(module) or chosen_name()
    overridden: bool = library(name, "utilities.model_helpers").is_overridden(hook, module)
    return overridden
