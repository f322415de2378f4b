"""What a plugin could remember between calls: attributes, private ones too, class variables,
globals, defaults and closures.

`remembered` names each place with a digest of what it holds, so that two looks tell which place has
changed. What a plugin hides in another module or in a file isn't seen here; the check that equal
calls give equal results is there for that.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from random import Random
from types import FunctionType, ModuleType
from typing import Any

from dppipe.component import Component

DEEPEST = 8


def remembered(component: Component) -> dict[str, str]:
    """Return each place where the component's plugin could keep something, with a digest."""
    cls = type(component)
    module = sys.modules[cls.__module__]
    own = [base for base in cls.__mro__ if base.__module__ == module.__name__]
    return {
        place: digest(value)
        for place, value in [*_attributes(component), *_class_places(own), *_globals(module)]
    }


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the places whose digests have changed."""
    return [place for place in {**before, **after} if before.get(place) != after.get(place)]


def digest(value: Any) -> str:
    """Return a digest of a value and everything in it."""
    return hashlib.sha256(
        repr(_plain(value, depth=0)).encode(errors="backslashreplace")
    ).hexdigest()


def _attributes(component: Component) -> Iterator[tuple[str, Any]]:
    for name, value in vars(component).items():
        if not isinstance(getattr(type(component), name, None), cached_property):
            yield f"self.{name}", value
    for name, value in (component.__pydantic_private__ or {}).items():
        yield f"self.{name}", value


def _class_places(classes: list[type]) -> Iterator[tuple[str, Any]]:
    for cls in classes:
        for name, value in vars(cls).items():
            function = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(function, FunctionType):
                yield from _function_places(f"{cls.__name__}.{name}", function)
            elif not name.startswith(("__", "_abc_", "model_")):
                yield f"{cls.__name__}.{name}", value


def _globals(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            yield from _function_places(name, value)
        elif not (
            name.startswith("__") or isinstance(value, (type, ModuleType)) or callable(value)
        ):
            yield f"the global {name}", value
        elif (
            callable(value)
            and not isinstance(value, (type, FunctionType))
            and type(value).__module__ == module.__name__
        ):
            yield f"the global {name}", vars(value) if hasattr(value, "__dict__") else value


def _function_places(name: str, function: FunctionType) -> Iterator[tuple[str, Any]]:
    yield f"a default of {name}", (function.__defaults__, function.__kwdefaults__)
    yield f"an attribute of {name}", vars(function)
    for variable, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        if variable != "__class__":
            yield f"{variable} around {name}", cell


def _plain(value: Any, *, depth: int) -> Any:
    """Return plain data whose `repr` shows everything that a value holds."""
    if depth > DEEPEST or isinstance(value, (type, ModuleType, FunctionType)):
        return type(value).__name__
    if isinstance(value, Mapping):
        return "map", [
            (_plain(key, depth=depth + 1), _plain(item, depth=depth + 1))
            for key, item in list(value.items())
        ]
    if isinstance(value, (set, frozenset)):
        return "set", sorted(repr(_plain(item, depth=depth + 1)) for item in value)
    if isinstance(value, Random):
        return value.getstate()
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        return str(value.dtype), tuple(value.shape), _numbers(value)
    if hasattr(value, "bit_generator"):
        return _plain(value.bit_generator.state, depth=depth + 1)
    if hasattr(value, "cell_contents"):
        return _plain(value.cell_contents, depth=depth + 1)
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        return type(value).__name__, [_plain(item, depth=depth + 1) for item in list(value)]
    if getattr(value, "__dict__", None):
        return type(value).__name__, _plain(vars(value), depth=depth + 1)
    # The address in a plain object's text would differ between equal objects; here it is the same
    # object both times.
    return repr(value)


def _numbers(array: Any) -> Any:
    """Return the numbers of an array or tensor, as far as they can be read.

    A tensor that was kept from inside vmap has lost them.
    """
    try:
        return array.tolist() if str(getattr(array, "device", "cpu")) == "cpu" else ""
    except RuntimeError:
        return ""
