"""The graph of imports: no circle, type-only imports included; packages of a size that can be read."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dppipe

PACKAGE = Path(dppipe.__file__).parent
MOST = 18
"""Files of one package. A family, whose files are all of one subject, may have more."""
OF_ONE_SUBJECT = {
    "cli",
    "engine/rules",
    "clipping",
    "data/reading",
    "plugin_kit/checks",
    "privacy/events",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_modules(path: Path) -> set[str]:
    """Return the modules of the package that a file imports anywhere, for type checkers or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in MODULES else node.module)
    return {name for name in found if name in MODULES}


def test_no_modules_import_each_other_in_a_circle():
    # A package's own file only names what it exports lazily.
    graph = {
        name: imported_modules(path) - {name}
        for name, path in MODULES.items()
        if path.name != "__init__.py" or path.parent.name == "rules"
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_graph_sees_imports_for_type_checkers(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("if TYPE_CHECKING:\n    from dppipe.engine import units\n")
    assert imported_modules(file) == {"dppipe.engine.units"}


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES.values()}))
def test_a_package_holds_few_enough_files_to_be_read(folder):
    name = str(folder.relative_to(PACKAGE))
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert name in OF_ONE_SUBJECT or len(files) <= MOST
