"""The package in which plugin files are imported: `plugins/soft.py` is
`dppipe.spec.kinds.plugins.soft`.

Being importable by that name, what a plugin defines can be pickled for worker processes: they find
the folder in the environment. The code that runs is compiled from the very bytes that are hashed,
never from a cache. Plugins are trusted code; a broken one names itself and stops nothing else. Read
next: `plugin_scan.py`, which finds kinds without running anything.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from dppipe.errors import UsageError
from dppipe.text_layout import shorten

FOLDER = "DPPIPE_PLUGINS"
"""The environment variable by which worker processes find the plugin folder."""

__path__: list[str] = []  # a module with a path is a package: plugin files are its submodules

_hashes: dict[str, str] = {}


def import_plugin(file: Path) -> ModuleType:
    """Import a plugin file; what goes wrong in it is a UsageError of one line that names the file
    and the line.
    """
    os.environ[FOLDER] = str(file.parent)
    name = f"{__name__}.{file.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and (
        loaded.__file__ != str(file) or _hashes.get(str(file)) != hash_file(file)
    ):
        del sys.modules[name]
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{describe_failure(error, file)}. Fix the plugin, or use another kind."
        ) from error


def describe_failure(error: BaseException, file: Path) -> str:
    """Say where in a plugin file something went wrong, and what."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    what = shorten(" ".join(f"{type(error).__name__}: {text}".split()), 200)
    return f"{show_path(file)}:{find_line(error, file) or 1}: the plugin can't be loaded: {what}"


def find_line(error: BaseException, file: Path) -> int | None:
    """Return the line of a plugin file that raised an error, or called what raised it."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(file) else line
        trace = trace.tb_next
    return line


def show_path(file: Path) -> str:
    """Return a path as a person would write it here."""
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)


def hash_file(file: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def plugin_hash(module: ModuleType) -> str:
    """Return the hash of the bytes that a plugin's module was compiled from."""
    file = module.__file__ or ""
    return _hashes[file] if file in _hashes else hash_file(Path(file))


class _Loader(SourceFileLoader):
    """Compiles the source every time: a stale cache would run code with another hash, and
    validating writes nothing.
    """

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        _hashes[self.path] = hashlib.sha256(source).hexdigest()
        return self.source_to_code(source, self.path)


class _Finder:
    """Finds this package's submodules in the plugin folder."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, stem = name.rpartition(".")
        folder = os.environ.get(FOLDER)
        if package != __name__ or not folder:
            return None
        file = Path(folder) / f"{stem}.py"
        return (
            spec_from_file_location(name, file, loader=_Loader(name, str(file)))
            if file.is_file()
            else None
        )


if not any(getattr(finder, "__module__", None) == __name__ for finder in sys.meta_path):
    sys.meta_path.append(_Finder)
