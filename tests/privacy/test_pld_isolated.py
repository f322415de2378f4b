"""`dppipe.privacy.pld` has one entry point: the rest of the package imports nothing behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dppipe
from dppipe.privacy import pld

ROOT = Path(dppipe.__file__).parent
INSIDE = ROOT / "privacy" / "pld"


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Yield each import as a module and the name that is taken from it, or nothing."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield "." * node.level + (node.module or ""), alias.name


def behind_the_entry(text: str) -> list[tuple[str, str]]:
    """Return the imports that go past the entry point."""
    return [(module, name) for module, name in imported(text) if goes_past(module, name)]


def goes_past(module: str, name: str) -> bool:
    if module.startswith("."):
        return "pld" in f"{module}.{name}".split(".")
    if module == "dppipe.privacy.pld":
        return name not in pld.__all__
    return f"{module}.{name}" == "dppipe.privacy.pld" or module.startswith("dppipe.privacy.pld.")


def test_nothing_outside_imports_more_than_the_names_of_the_entry_point() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        if path.is_relative_to(INSIDE) or path == ROOT / "privacy" / "accountants" / "__init__.py":
            continue  # the accountants' own module is named pld too
        text = path.read_text()
        assert "pld" not in text or behind_the_entry(text) == [], path


@pytest.mark.parametrize(
    "line",
    [
        "from dppipe.privacy.pld.curves import LossCurve",
        "import dppipe.privacy.pld.fft",
        "from dppipe.privacy.pld import grid",
        "from dppipe.privacy import pld",
        "from ..pld.grid import LossPmf",
        "def f():\n    from dppipe.privacy.pld.windows import Windows",
    ],
)
def test_an_import_behind_the_entry_point_is_found(line: str) -> None:
    assert behind_the_entry(line)


def test_every_name_of_the_entry_point_is_there() -> None:
    assert all(callable(getattr(pld, name)) for name in pld.__all__)
