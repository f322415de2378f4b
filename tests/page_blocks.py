"""Blocks of code on the pages: files to write, and commands with what they show."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import typer.main

from dppipe.cli.app import app

BLOCK = re.compile(r"```(python|yaml|console)\n(.*?)```", flags=re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.(?:py|yaml))\n")
"""The first line of a block that is a file: its name."""


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each block of Python, YAML or commands."""
    return [(found[1], found[2]) for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def commands(block: str) -> list[tuple[str, list[str]]]:
    """Return each command of a block with the lines that it shows."""
    found: list[tuple[str, list[str]]] = []
    for line in block.replace("\\\n", " ").splitlines():  # a command may go on in the next line
        if line.startswith("$ "):
            found.append((line.removeprefix("$ dppipe "), []))
        else:
            found[-1][1].append(line)
    return found


def write_file(block: str, folder: Path) -> bool:
    """Write a block that begins with its file's name, and return whether it does."""
    named = FILE.match(block)
    if not named:
        return False
    target = folder / named[1]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(block, encoding="utf-8")
    return True


def assert_shown(shown: list[str], printed: list[str]) -> None:
    """Every line is printed, in this order; `...` stands for any lines, and the number of checks may be another one by now."""
    pattern = "\n".join(r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in shown)
    pattern = re.sub(r"\d+\\ tried", r"\\d+\\ tried", pattern)
    assert re.fullmatch(pattern, "\n".join(printed)), "\n".join(printed)


@functools.cache
def whole_command() -> Any:
    return typer.main.get_command(app)


def assert_parses(words: list[str]) -> None:
    """The command exists, and takes these arguments and options; nothing is done."""
    command = whole_command()
    context = command.make_context("dppipe", list(words))
    while hasattr(command, "resolve_command"):
        rest = [*getattr(context, "_protected_args", []), *context.args]
        name, command, rest = command.resolve_command(context, rest)
        assert command is not None, name
        context = command.make_context(name, list(rest), parent=context)
