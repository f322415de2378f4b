"""A user's own class by its path, such as `my_package.models.Net`, for the `class_path` kinds of
models and data.

The working directory can be imported from, after everything that is installed: a file there can't
take the place of a library.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dppipe.errors import Problem, SpecError

_PACKAGE = Path(__file__).parent
_LIBRARIES = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]


def import_class(class_path: str, *, block: str) -> type:
    """Import the class at this path; a fault is a problem of `<block>.class_path`."""
    module_name, _, name = class_path.rpartition(".")
    if not all(part.isidentifier() for part in class_path.split(".")) or not module_name:
        raise _problem(
            block,
            f"expected package.module.Class, got {class_path!r}. Write the path that Python "
            "would import.",
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(
            f"{error.name}."
        )
        advice = (
            f"The working directory {here} and what is installed were searched."
            if missing
            else "Fix that module."
        )
        raise _problem(
            block,
            f"expected a class that can be imported, got {class_path!r}: "
            f"{describe_failure(error)}. {advice}",
        ) from error
    found = getattr(module, name, None)
    if not inspect.isclass(found):
        what = "something that is no class" if hasattr(module, name) else "no such name"
        raise _problem(
            block,
            f"expected a class, got {class_path!r}: {getattr(module, '__file__', module_name)} has "
            f"{what}.",
        )
    return found


def find_source(class_path: str) -> Path | None:
    """Find the file of a class path's module without importing it; None where it is a library's, or
    isn't there.

    Libraries have versions, which are recorded; a user's own file is known by its contents alone.
    """
    *parts, _ = class_path.split(".")
    for root in (*sys.path, str(Path.cwd())):
        module = Path(root).joinpath(*parts).absolute()
        for file in (module / "__init__.py", module.parent / f"{module.name}.py"):
            if file.is_file():
                return None if any(file.is_relative_to(folder) for folder in _LIBRARIES) else file
    return None


def describe_failure(error: BaseException) -> str:
    """Say what went wrong in a user's code, and where.

    An error's text is left out unless it is Python's own: it could contain a record's value.
    """
    if isinstance(error, ImportError | SyntaxError):
        return f"{type(error).__name__}: {error}"
    place = find_users_line(error)
    return f"{type(error).__name__} at {place}" if place else type(error).__name__


def find_users_line(error: BaseException) -> str | None:
    """Return file and line of the user's code that raised an error or called what raised it.

    Only code that dppipe has called counts; None for an error of dppipe's own.
    """
    found, called = None, False
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if file.is_relative_to(_PACKAGE):
            called = True
        elif (
            called
            and file.is_file()
            and not any(file.is_relative_to(folder) for folder in _LIBRARIES)
        ):
            found = f"{file.name}:{frame.lineno}"
    return found


def check_arguments(cls: type, arguments: Mapping[str, Any], *, block: str) -> None:
    """Refuse arguments that the class's constructor doesn't take, before anything is built."""
    try:
        _signature(cls).bind(**arguments)
    except TypeError as error:
        message = f"expected the arguments of {cls.__name__}{_signature(cls)}, got others: {error}."
        raise SpecError([Problem((block, "init_args"), message)]) from None


def takes(cls: type, name: str) -> bool:
    """Tell whether the class's constructor has a parameter of this very name."""
    parameter = _signature(cls).parameters.get(name)
    return parameter is not None and parameter.kind not in (
        parameter.VAR_KEYWORD,
        parameter.VAR_POSITIONAL,
    )


def _signature(cls: type) -> inspect.Signature:
    try:
        return inspect.signature(cls)
    except ValueError:  # a class in C may not tell its parameters
        return inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])


def _problem(block: str, message: str) -> SpecError:
    return SpecError([Problem((block, "class_path"), message)])
