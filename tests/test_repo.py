"""The repository against its own rules: layers, public names, specs that plan, and prose that tells the truth."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import dppipe

ROOT = Path(dppipe.__file__).parents[1]
PACKAGE = ROOT / "dppipe"
MODULES = sorted(PACKAGE.rglob("*.py"))

FAMILIES = "clipping noise sampling models data losses optim schedules"
LAYERS = [
    "errors lazy",
    "environment",
    "component class_path durable clipper_abilities input_layout local_folder text_layout",
    "privacy",
    "spec",
    "randomness",
    "engine networks",
    FAMILIES,
    "planning",
    "budgets",
    "runs",
    "learners",
    "lightning",
    "pipeline",
    "audit report plugin_kit bench",
    "cli",
    "__main__",
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
LIGHTNING = {"lightning", "lightning_fabric", "pytorch_lightning"}
NEVER = (
    {
        "privacy": {"torch", *LIGHTNING},
        "spec": {"torch", *LIGHTNING, "dp_accounting"},
        "engine": LIGHTNING,
        "networks": LIGHTNING,
        "planning": {"torch", *LIGHTNING},
        "runs": LIGHTNING,
        "learners": LIGHTNING,
        "lightning": LIGHTNING,  # whichever name the user has loaded: `dppipe/lightning/names/namespaces.py`
        "pipeline": LIGHTNING,
    }
    | dict.fromkeys(FAMILIES.split(), LIGHTNING)
)


def imports(path: Path, *, everywhere: bool) -> set[str]:
    """Return the modules that a file imports when it runs: what only type checkers see doesn't count."""
    tree = ast.parse(path.read_text())
    hidden = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree) if everywhere else tree.body:
        if node not in hidden and isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node not in hidden and isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_layers_above_it(path):
    if path == PACKAGE / "__init__.py":
        return
    mine = layer(path)
    for name in imports(path, everywhere=True):
        top, _, rest = name.partition(".")
        if top == "dppipe" and rest:
            other = rest.split(".")[0]
            assert (
                other == mine or RANK[other] < RANK[mine] or {other, mine} <= set(FAMILIES.split())
            ), f"{mine} imports {name}"
        assert top not in NEVER.get(mine, set()) or (
            mine == "privacy" and top == "dp_accounting"
        ), f"{mine} imports {name}"


@pytest.mark.parametrize(
    "path",
    [p for p in MODULES if layer(p) in FAMILIES.split() or p.parent.name == "accountants"],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_component_modules_load_without_heavy_imports(path):
    heavy = {"torch", "dp_accounting", "sklearn", "scipy", *LIGHTNING}
    assert not {name.split(".")[0] for name in imports(path, everywhere=False)} & heavy


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_free_of_prints_and_asserts(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    tree = ast.parse(text)
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}"
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and layer(path) != "cli"
            and "__main__" not in text
        ):
            assert node.func.id != "print", f"line {node.lineno}"
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} is long"


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_importing_dppipe_loads_nothing_heavy():
    heavy = "{'torch', 'numpy', 'dp_accounting', 'lightning', 'pytorch_lightning', 'pydantic'}"
    assert run_python(f"import sys, dppipe; print({heavy} & set(sys.modules))").strip() == "set()"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "pipelines").rglob("*.yaml")), ids=lambda path: path.name
)
def test_every_pipeline_is_a_valid_spec(path, monkeypatch):
    from dppipe.spec.load import load_spec

    monkeypatch.chdir(ROOT)
    text = path.read_text()
    if "root:" in text or "path:" in text:
        pytest.skip("needs the user's own copy of the data")
    load_spec(path)


PROSE = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_paths_and_commands_in_the_prose_exist(path):
    from dppipe.cli.app import app

    text = path.read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (path.parent / target).exists(), f"link to {target}"
    for target in re.findall(
        r"`((?:dppipe|tests|pipelines|plugins|docs|benchmarks)/[\w./-]+)`", text
    ):
        assert (ROOT / target).exists(), target
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    for command in re.findall(r"^(?:\$ )?dppipe ([a-z]+)", text, re.MULTILINE) + re.findall(
        r"`dppipe ([a-z]+)", text
    ):
        assert command in commands, f"dppipe {command}"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"`make ([a-z-]+)`", text) + re.findall(
        r"^make ([a-z-]+)", text, re.MULTILINE
    ):
        assert target in targets, f"make {target}"


def test_the_readme_fits_its_limit_and_its_yaml_is_valid():
    from dppipe.spec.load import spec_from_text

    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    whole, *parts = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert parts
    spec_from_text(whole)
    for part in parts:  # some blocks of a spec, which take the place of those of the whole one
        blocks = yaml.safe_load(part)
        spec_from_text(
            whole, overrides=[f"{name}={json.dumps(block)}" for name, block in blocks.items()]
        )


def test_the_readmes_python_is_valid():
    for path in PROSE:
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
            ast.parse(block)
