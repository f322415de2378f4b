"""Pages to follow along: each command on them runs and prints what the page shows, each spec is valid."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from page_blocks import assert_parses, assert_shown, blocks_of, commands, write_file
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app

ROOT = Path(dppipe.__file__).parents[1]
PAGES = [
    "quickstart",
    "your_model",
    "reading_a_statement",
    "accountants_compared",
    "faq",
    "course",
]
QUICK = {"account", "plan"}
"""Commands that read no record, need no file of the page's own, and answer at once."""
EXIT_CODE = re.compile(r"# exit code (\d)$")


def page(name: str) -> Path:
    return ROOT / "docs" / f"{name}.md"


def commands_on(name: str) -> list[tuple[str, list[str]]]:
    found = []
    for language, block in blocks_of(page(name)):
        if language == "console":
            found += commands(block)
    return found


def words(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def all_commands() -> list[tuple[str, str]]:
    """Return every `dppipe` command of every page, with the page's name."""
    found = []
    for each in sorted((ROOT / "docs").glob("*.md")):
        for language, block in blocks_of(each):
            if language == "console":
                found += [(each.stem, command) for command, _ in commands(block)]
    return [(name, command) for name, command in found if not command.startswith("$")]


ALL = [(name, command, shown) for name in PAGES for command, shown in commands_on(name)]
ONCE = {command: shown for _, command, shown in ALL if words(command)[0] in QUICK}
"""Of a command that stands on several pages, one; the slow test of each page runs all of its own."""


def run_and_compare(command: str, shown: list[str]) -> None:
    expected = EXIT_CODE.search(command)
    result = CliRunner().invoke(app, words(command))
    assert result.exit_code == (int(expected[1]) if expected else 0), result.output
    assert_shown(shown, result.output.rstrip("\n").splitlines())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the repository's pipelines and plugins, in which a reader works."""
    for name in ("pipelines", "plugins"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", PAGES)
def test_a_walked_page_has_commands(name: str) -> None:
    assert commands_on(name)


@pytest.mark.parametrize(("name", "command"), all_commands())
def test_a_command_on_a_page_parses(name: str, command: str) -> None:
    assert_parses(words(command))


def test_a_command_or_an_option_that_does_not_exist_is_found() -> None:
    for wrong in ("runn pipelines/quickstart.yaml", "account --nope 3"):
        with pytest.raises(Exception, match="No such"):
            assert_parses(words(wrong))


@pytest.mark.parametrize("command", ONCE)
def test_a_quick_command_prints_what_a_page_shows(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    run_and_compare(command, ONCE[command])


@pytest.mark.parametrize("name", PAGES)
def test_the_yaml_of_a_page_is_valid(name: str) -> None:
    from dppipe.spec.load import spec_from_text

    whole = (ROOT / "pipelines/quickstart.yaml").read_text(encoding="utf-8")
    for language, block in blocks_of(page(name)):
        if language != "yaml":
            continue
        if "version:" in block:
            spec_from_text(block)
            continue
        parts = yaml.safe_load(block).items()
        spec_from_text(whole, overrides=[f"{key}={json.dumps(value)}" for key, value in parts])


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_true_from_its_first_line_to_its_last(name: str, folder: Path) -> None:
    made: dict[str, Any] = {}
    for language, block in blocks_of(page(name)):
        if language == "console":
            for command, shown in commands(block):
                run_and_compare(command, shown)
        elif not write_file(block, folder) and language == "python":
            exec(block, made)


@pytest.mark.slow
def test_the_quoted_statement_is_that_of_a_run(folder: Path) -> None:
    text = page("reading_a_statement").read_text(encoding="utf-8")
    quoted = "".join(re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)).splitlines()
    quoted += re.findall(r"^> (.+)$", text, flags=re.MULTILINE)
    assert len(quoted) > 10
    run = ["run", "pipelines/quickstart.yaml", "--run-dir", "runs/quoted"]
    assert CliRunner().invoke(app, run).exit_code == 0
    written = (folder / "runs/quoted/privacy.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in quoted if line not in written] == []
