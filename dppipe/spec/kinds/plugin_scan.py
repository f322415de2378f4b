"""Which kinds the files of a plugin folder define, read from their syntax trees: nothing is
imported.

A kind is a class statement with `kind="..."` whose base is a family's: named so, imported from the
family's package, or a class of the same file that has such a base. A file that can't be read is
remembered, because its kinds can't be known.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from dppipe.errors import UsageError
from dppipe.spec.kinds.families import FAMILIES, Family
from dppipe.spec.kinds.plugins import show_path

DEFAULT_FOLDER = "plugins"


@dataclass(frozen=True)
class FoundKind:
    """A kind that a file defines."""

    block: str
    kind: str
    class_name: str
    file: Path
    line: int


@dataclass(frozen=True)
class Scan:
    """What a folder holds."""

    kinds: tuple[FoundKind, ...] = ()
    unread: tuple[str, ...] = ()
    """Files whose kinds can't be known, each with the reason."""


def find_folder(named: Path | str | None) -> Path | None:
    """Return the plugin folder: the one that was named, or `plugins/` here.

    A link to elsewhere doesn't count.
    """
    if named is not None:
        folder = Path(named)
        if not folder.is_dir():
            raise UsageError(
                f"--plugins {named}: expected a folder, got "
                f"{'a file' if folder.exists() else 'nothing'} there."
            )
        return folder.resolve()
    folder = Path(DEFAULT_FOLDER).resolve()
    return folder if folder.is_dir() and folder == Path.cwd().resolve() / DEFAULT_FOLDER else None


def scan_folder(folder: Path) -> Scan:
    """Find the kinds of every file; names that start with `_` are left to the plugins."""
    kinds: list[FoundKind] = []
    unread: list[str] = []
    for file in sorted(folder.glob("*.py")):
        if file.name.startswith("_"):
            continue
        try:
            kinds += scan_file(file)
        except (OSError, SyntaxError, ValueError, RecursionError, UsageError) as error:
            line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            reason = (
                error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
            )
            unread.append(f"{show_path(file)}{line} ({reason})")
    return Scan(tuple(kinds), tuple(unread))


def scan_file(file: Path) -> list[FoundKind]:
    """Find the kinds of one file."""
    if file.resolve().parent != file.parent:
        raise UsageError("a link that leads out of the folder")
    if "." in file.stem:
        raise UsageError("a name with a dot can't be imported")
    tree = ast.parse(file.read_bytes(), filename=str(file))
    names = _imported_bases(tree)
    found = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        family = next((family for base in node.bases if (family := _family_of(base, names))), None)
        if family is None:
            continue
        names[node.name] = family
        for keyword in node.keywords:
            if (
                keyword.arg == "kind"
                and isinstance(keyword.value, ast.Constant)
                and isinstance(keyword.value.value, str)
            ):
                found.append(
                    FoundKind(family.block, keyword.value.value, node.name, file, node.lineno)
                )
    return found


def _imported_bases(tree: ast.Module) -> dict[str, Family]:
    names = {}
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        for alias in node.names:
            for family in FAMILIES.values():
                home = node.module == family.package or node.module.startswith(f"{family.package}.")
                if home or (node.module == "dppipe" and alias.name == family.base):
                    names[alias.asname or alias.name] = family
    return names


def _family_of(base: ast.expr, names: dict[str, Family]) -> Family | None:
    name = (
        base.attr
        if isinstance(base, ast.Attribute)
        else base.id
        if isinstance(base, ast.Name)
        else ""
    )
    return names.get(name) or next(
        (family for family in FAMILIES.values() if family.base == name), None
    )
