"""Everything a spec can name: built-in kinds, plugin files and installed packages, found without
importing them.

A kind is imported when it is used. Built-in names can't be shadowed: a kind that is defined in two
places is refused when it is used, with every place. Samplers and accountants claim proofs that the
core can't check, so they never come from outside.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import dppipe
from dppipe.class_path import find_source
from dppipe.component import Component
from dppipe.errors import UsageError
from dppipe.spec.kinds.families import FAMILIES, Family
from dppipe.spec.kinds.plugin_scan import DEFAULT_FOLDER, FoundKind, Scan, find_folder, scan_folder
from dppipe.spec.kinds.plugins import hash_file, import_plugin, plugin_hash, show_path
from dppipe.spec.messages.suggestions import suggest_kind
from dppipe.text_layout import shorten

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class Source:
    """One place that defines a kind."""

    kind: str
    where: str
    built_in: bool
    load: Callable[[], object]


class Registry:
    """The kinds that a spec can name, with the plugin files of one folder.

    Example:
        >>> from dppipe.spec import Registry
        >>> Registry().kinds("sampler")[:3]
        ['balls_in_bins', 'full_batch', 'poisson']
        >>> Registry().load("clipping", "flat")
        <class 'dppipe.clipping.flat.Flat'>
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = find_folder(folder)

    def kinds(self, block: str) -> list[str]:
        """Return the names of all kinds of a family."""
        return sorted({source.kind for source in self._sources(FAMILIES[block])})

    def load(self, block: str, kind: str) -> type[Component]:
        """Return the class of a kind; a UsageError says why there is none."""
        family = FAMILIES[block]
        sources = [source for source in self._sources(family) if source.kind == kind]
        if not sources:
            raise UsageError(self._unknown(family, kind))
        outside = [source for source in sources if not source.built_in]
        if len(sources) > 1:
            places = " and ".join(source.where for source in sources)
            raise UsageError(
                f"expected one {family.noun} named {kind!r}, got {len(sources)}: {places}. "
                "Rename yours."
            )
        if outside and not family.takes_plugins:
            raise UsageError(
                f"expected a built-in {family.noun}, got {kind!r} of {outside[0].where}. Its "
                f"claims can't be checked, so {family.noun}s don't come from plugins. Known: "
                f"{self._known(family)}."
            )
        loaded = sources[0].load()
        if not (isinstance(loaded, type) and issubclass(loaded, Component) and loaded.kind == kind):
            raise UsageError(
                f"expected {family.one} named {kind!r} in {sources[0].where}, got another thing."
            )
        return loaded

    def _sources(self, family: Family) -> Iterable[Source]:
        for kind in built_in_kinds(family):
            yield Source(kind, "dppipe", True, partial(load_built_in, family, kind))
        for found in self._scan.kinds:
            if found.block == family.block:
                yield Source(
                    found.kind,
                    f"{show_path(found.file)}:{found.line}",
                    False,
                    partial(_load_found, found),
                )
        if family.group is not None:
            for point in self._entry_points.get(family.group, ()):
                package = point.dist.name if point.dist else "an installed package"
                yield Source(
                    point.name, f"{point.value} of {package}", False, partial(_load_point, point)
                )

    @cached_property
    def _scan(self) -> Scan:
        return scan_folder(self.folder) if self.folder else Scan()

    @cached_property
    def _entry_points(self) -> dict[str, tuple[EntryPoint, ...]]:
        from importlib.metadata import entry_points

        found = entry_points()
        return {group: tuple(found.select(group=group)) for group in found.groups}

    def _known(self, family: Family) -> str:
        usable = set()
        for source in self._sources(family):
            if source.built_in or family.takes_plugins:
                usable.add(source.kind)
        return ", ".join(sorted(usable)) or "none"

    def _unknown(self, family: Family, kind: str) -> str:
        if kind == "class_path":
            how = "Take a known kind"
            if family.takes_plugins:
                how = "Write a plugin, or take a known kind"
            return (
                f"expected the name of {family.one}, got a class path. {how}: "
                f"{self._known(family)}."
            )
        unread = f" Not read: {', '.join(self._scan.unread)}." if self._scan.unread else ""
        guess = suggest_kind(kind, self.kinds(family.block))
        elsewhere = "" if guess else self._where_plugins_are(family)
        known = f"no {family.noun} named {kind!r}. Known: {self._known(family)}."
        return f"{known}{guess}{elsewhere}{unread}"

    def _where_plugins_are(self, family: Family) -> str:
        """Say which folder was searched for plugins, and how to name another."""
        if not family.takes_plugins:
            return ""
        if self.folder is None:
            return (
                f" If it is a plugin's: there is no folder {DEFAULT_FOLDER}/ in the working "
                "directory. Name the plugins' folder with --plugins DIR."
            )
        return (
            f" Plugins were looked for in {show_path(self.folder)}; --plugins DIR names another "
            "folder."
        )


def built_in_kinds(family: Family) -> list[str]:
    """Return the built-in kinds: a file of that name in the family's folder defines each."""
    folder = Path(dppipe.__file__).parent.joinpath(*family.package.split(".")[1:])
    kinds = []
    for file in folder.glob("*.py"):
        if file.stem == "base" or file.name.startswith("_"):
            continue
        if f'kind="{file.stem}"' in file.read_text(encoding="utf-8"):
            kinds.append(file.stem)
    return sorted(kinds)


def load_built_in(family: Family, kind: str) -> type[Component]:
    """Import a built-in kind."""
    module = importlib.import_module(f"{family.package}.{kind}")
    for value in vars(module).values():
        if not (isinstance(value, type) and issubclass(value, Component)):
            continue
        if value.kind == kind and value.__module__ == module.__name__:
            return value
    raise LookupError(f"{module.__name__}: expected a class of kind {kind!r}, got none")


def plugin_files(components: Iterable[Component]) -> dict[str, str]:
    """Return the file of each component from outside dppipe, with its hash.

    Of a class path it is the file that it names. Names are the same wherever a command is run:
    a plugin's folder and file, or a module's place in its package.
    """
    found = {}
    for component in components:
        name = type(component).__module__
        module = sys.modules[name]
        if name.startswith("dppipe.spec.kinds.plugins."):
            file = Path(module.__file__ or name)
            found[f"{file.parent.name}/{file.name}"] = plugin_hash(module)
        elif name.split(".")[0] != "dppipe":
            found[_module_file(name)] = plugin_hash(module)
        named = str(getattr(component, "class_path", ""))
        source = find_source(named) if named else None
        if source is not None:
            found[_module_file(named.rpartition(".")[0])] = hash_file(source)
    return dict(sorted(found.items()))


def _module_file(name: str) -> str:
    return f"{name.replace('.', '/')}.py"


def _load_found(found: FoundKind) -> object:
    return getattr(import_plugin(found.file), found.class_name, None)


def _load_point(point: EntryPoint) -> object:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        what = shorten(" ".join(f"{type(error).__name__}: {error}".split()), 200)
        message = (
            f"{point.value}: the plugin can't be loaded: {what}. Fix the package, or use "
            "another kind."
        )
        raise UsageError(f"{_place(error)}{message}") from error


def _place(error: BaseException) -> str:
    """Return file and line of an installed package's code that raised an error, if any did."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{show_path(Path(error.filename))}:{error.lineno}: "
    frame = traceback.extract_tb(error.__traceback__)[-1]
    own = Path(frame.filename).is_file() and not Path(frame.filename).is_relative_to(
        Path(importlib.__file__).parent
    )
    return f"{show_path(Path(frame.filename))}:{frame.lineno}: " if own else ""
