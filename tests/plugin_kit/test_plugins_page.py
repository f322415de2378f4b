"""The page about plugins: its files are written and its commands run, in order, in an empty folder; what it shows is printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from page_blocks import assert_shown, blocks_of, commands
from typer.testing import CliRunner

from dppipe.cli.app import app

BLOCKS = blocks_of(Path(__file__).parents[2] / "docs" / "plugins.md")


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
