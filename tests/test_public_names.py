"""Public names: `__all__` lists exactly what a package offers, and each name can be had."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import dppipe

PACKAGE = Path(dppipe.__file__).parent
PACKAGES = sorted(PACKAGE.rglob("__init__.py"))


def offered_names(path: Path) -> set[str]:
    """Return the public names that a package's file defines, or imports lazily from its modules."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_names":
            homes = node.args[1]
            found |= {key.value for key in homes.keys}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {ast.unparse(target) for target in targets}
    return {name for name in found if name == "__version__" or not name.startswith("_")}


def type_checked_names(path: Path) -> set[str]:
    """Return the names that a package's file declares for type checkers."""
    found = set()
    for block in ast.parse(path.read_text()).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    found |= {alias.asname or alias.name for alias in node.names}
                elif isinstance(node, ast.AnnAssign):
                    found.add(ast.unparse(node.target))
    return found


WITH_NAMES = [path for path in PACKAGES if offered_names(path)]


@pytest.mark.parametrize("path", WITH_NAMES, ids=lambda p: p.parent.name)
def test_all_lists_exactly_the_names_that_a_package_offers(path):
    module = importlib.import_module(".".join(path.parent.relative_to(PACKAGE.parent).parts))
    assert set(module.__all__) == offered_names(path)
    assert module.__all__ == sorted(module.__all__)


@pytest.mark.parametrize("path", WITH_NAMES, ids=lambda p: p.parent.name)
def test_type_checkers_see_every_lazy_name(path):
    if "lazy_names" in path.read_text():
        defined = {"__version__"}
        assert type_checked_names(path) == offered_names(path) - defined


@pytest.mark.parametrize("path", WITH_NAMES, ids=lambda p: p.parent.name)
def test_every_public_name_is_there(path):
    module = importlib.import_module(".".join(path.parent.relative_to(PACKAGE.parent).parts))
    for name in module.__all__:
        assert getattr(module, name) is not None
