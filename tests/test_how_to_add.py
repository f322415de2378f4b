"""Every list of `docs/architecture.md` on how to add a part is carried out, as written, in a copy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dppipe

ROOT = Path(dppipe.__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
_, _, GUIDE = PAGE.partition("# How to add a part\n")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))
INSERTION = re.compile(r"In `([^`]+)`, after `([^`]+)`, add `([^`]+)`\.")
REPLACEMENT = re.compile(r"In `([^`]+)`, replace `([^`]+)` by `([^`]+)`\.")
NEW_FILE = re.compile(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def copy_repository(place: Path) -> Path:
    """Copy what the steps need."""
    for name in ("dppipe", "tests", "pipelines", "plugins"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def carry_out(section: str, root: Path) -> None:
    """Write the files of a section and insert its lines."""
    for path, text in NEW_FILE.findall(section):
        assert not (root / path).exists(), path
        (root / path).write_text(text)
    for path, anchor, line in INSERTION.findall(section):
        text = (root / path).read_text()
        assert text.count(f"{anchor}\n") >= 1, f"{path} has no line {anchor!r}"
        (root / path).write_text(text.replace(f"{anchor}\n", f"{anchor}\n{line}\n", 1))
    for path, old, new in REPLACEMENT.findall(section):
        text = (root / path).read_text()
        assert text.count(old) == 1, f"{path} has no {old!r}"
        (root / path).write_text(text.replace(old, new))


def run_command(line: str, root: Path) -> str:
    """Run a command of the page in the copy and return what it prints."""
    words = line.removeprefix("$ ").split()
    programs = {
        "dppipe": ["-m", "dppipe"],
        "pytest": ["-m", "pytest", "-p", "no:cacheprovider"],
        "python": [],
    }
    command = [sys.executable, *programs[words[0]], *words[1:]]
    environment = os.environ | {"PYTHONPATH": str(root), "DPPIPE_STORE": str(root / "budgets.db")}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_says_how_to_add_each_kind_of_part():
    wanted = "clipper sampler accountant event noise-schedule layer-rule data-kind curve command"
    found = {re.sub(r"^An? ", "", heading).replace(" ", "-") for heading in SECTIONS}
    assert set(wanted.split()) <= found
    assert {"learner", "noise-process"} <= found


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_list_has_at_most_five_steps(heading):
    assert 1 <= len(re.findall(r"^\d+\. ", SECTIONS[heading], re.MULTILINE)) <= 5


QUICK = {"A layer rule", "A data kind"}
"""The lists whose commands are run by default; those of the others are slow tests."""


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_files_and_lines_of_a_list_fit_the_repository(heading, tmp_path):
    root = copy_repository(tmp_path)
    carry_out(SECTIONS[heading], root)
    for path, _ in NEW_FILE.findall(SECTIONS[heading]):
        if path.endswith(".py"):
            compile((root / path).read_text(), path, "exec")


@pytest.mark.parametrize(
    "heading",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in SECTIONS],
)
def test_a_part_is_added_by_carrying_out_its_list(heading, tmp_path):
    section = SECTIONS[heading]
    root = copy_repository(tmp_path)
    carry_out(section, root)
    (console,) = CONSOLE.findall(section)
    *_, last = console.split("$ ")[1:]
    printed = ""
    for line in re.findall(r"^\$ .*", console, re.MULTILINE):
        printed = run_command(line, root)
    for expected in last.splitlines()[1:]:
        assert expected in printed
