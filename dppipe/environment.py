"""Environment variables in a spec: `${env:NAME}` in paths, addresses and the options of loggers.

A spec holds the name, and so does every file, message and hash that is made of it. The value is
read where the operating system or a database asks for it, and is kept nowhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dppipe.errors import UsageError

_OPENS = "${"
_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class Variables:
    """Marks a field whose texts, and those inside it, may name environment variables.

    Paths need no mark. What reads a marked field passes it through `expand` or `expand_all`, at
    the last moment, and shows the text as it is written.

    Example:
        >>> from typing import Annotated
        >>> from dppipe.environment import Variables
        >>> Address = Annotated[str, Variables()]
    """


def names_variable(text: str) -> bool:
    """Return whether a text holds `${env:NAME}`, or tries to."""
    return "${env" in text


def variable_fault(text: str) -> str | None:
    """Return what is wrong with the variables of a text; None where all can be read.

    The message holds no value.
    """
    if _OPENS in _VARIABLE.sub("", text):
        return (
            "expected variables as ${env:NAME}, got another form. A name has letters, digits "
            "and `_`."
        )
    for name in _VARIABLE.findall(text):
        if not os.environ.get(name):
            what = "is empty" if name in os.environ else "isn't set"
            return (
                f"expected the environment variable {name}, got none: it {what}. Set it where "
                "the command runs."
            )
    return None


def expand(text: str) -> str:
    """Return a text with the values of its variables; a UsageError names one that isn't set."""
    if not names_variable(text):
        return text
    fault = variable_fault(text)
    if fault is not None:
        raise UsageError(f"{text}: {fault}")
    return _VARIABLE.sub(lambda found: os.environ[found.group(1)], text)


def expand_all(data: Any) -> Any:
    """Return plain data, such as the options of a logger, with the values of all variables."""
    if isinstance(data, str):
        return expand(data)
    if isinstance(data, dict):
        return {key: expand_all(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [expand_all(value) for value in data]
    return data


if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())


class NamedPath(_Path):
    """A path that is shown with the names of its variables and opened with their values.

    Guarantee: its text, its parts, its `repr` and what is written of it hold names. Values are in
    `os.fspath` of it, which the functions that touch files ask for, and in what `resolve` and
    `absolute` return.
    """

    def __fspath__(self) -> str:
        return expand(str(self))

    @property
    def real(self) -> Path:
        """The path with the values, as an ordinary path."""
        return Path(self.__fspath__())

    def resolve(self, strict: bool = False) -> Path:  # type: ignore[override]
        """Return the ordinary path that this one stands for, with links followed."""
        return self.real.resolve(strict)

    def absolute(self) -> Path:  # type: ignore[override]
        """Return the ordinary path that this one stands for, from the root."""
        return self.real.absolute()

    def is_absolute(self) -> bool:
        """Return whether the path with its values begins at the root."""
        return self.real.is_absolute()

    def iterdir(self) -> Generator[Self, None, None]:
        """Yield what the folder holds, with the names of the variables."""
        yield from self._named(self.real.iterdir())

    def glob(self, pattern: str, **options: Any) -> Generator[Self, None, None]:
        """Yield what matches, with the names of the variables."""
        yield from self._named(self.real.glob(pattern, **options))

    def rglob(self, pattern: str, **options: Any) -> Generator[Self, None, None]:
        """Yield what matches at any depth, with the names of the variables."""
        yield from self._named(self.real.rglob(pattern, **options))

    def _named(self, found: Iterator[Path]) -> Iterator[Self]:
        real = self.real
        for path in found:
            yield self / path.relative_to(real)


def named_path(path: Path) -> Path:
    """Return a path that reads the variables which it names; any other path as it is."""
    if isinstance(path, NamedPath) or not names_variable(str(path)):
        return path
    return NamedPath(path)
