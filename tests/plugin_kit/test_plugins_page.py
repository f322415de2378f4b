"""The page about plugins: its files are written and its commands run, in order, in an empty folder; what it shows is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|yaml|console)\n(.*?)```", PAGE, flags=re.DOTALL)


def commands(block: str) -> list[tuple[str, list[str]]]:
    """Return each command of a block with the lines that it shows."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ dppipe "), []))
        else:
            found[-1][1].append(line)
    return found


def assert_shown(shown: list[str], printed: list[str]) -> None:
    """Every line is printed, in this order; `...` stands for any lines, and the number of checks may be another one by now."""
    pattern = "\n".join(r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in shown)
    pattern = re.sub(r"\d+\\ tried", r"\\d+\\ tried", pattern)
    assert re.fullmatch(pattern, "\n".join(printed)), "\n".join(printed)


def test_the_page_is_true_from_the_first_line_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for language, block in BLOCKS:
        if language != "console":
            file = tmp_path / block.splitlines()[0].removeprefix("# ")
            file.write_text(block)
            continue
        for command, shown in commands(block):
            result = CliRunner().invoke(app, shlex.split(command))
            failing = any("FAIL" in line for line in shown)
            assert result.exit_code == failing, result.output
            assert_shown(shown, result.stdout.splitlines())
