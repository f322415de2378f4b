"""Messages in a terminal: wrapped at its width, with paths and commands whole, and left alone in a pipe."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from dppipe.cli.printing.wrapping import fit_terminal, table, wrapped

LONG = "expected one thing, got another, and here is quite a lot about what may be done about it"
PATH = "/data/with some spaces/in it/that is longer than a line of a terminal/spec.yaml"


class Terminal(io.StringIO):
    """A stream that calls itself a terminal and has no size."""

    def isatty(self) -> bool:
        return True


def fitted(message: str, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("dppipe.cli.printing.wrapping._columns", lambda stream: width)
    return fit_terminal(message, stream=Terminal())


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_message_is_wrapped_at_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    lines = fitted(f"model: {LONG}. {LONG}.", width, monkeypatch).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= width
    assert " ".join(lines) == f"model: {LONG}. {LONG}."


def test_a_message_in_a_pipe_stays_one_line() -> None:
    assert fit_terminal(LONG * 3, stream=io.StringIO()) == LONG * 3


@pytest.mark.parametrize(
    "whole",
    [
        f"{PATH}:3:4:",
        "dppipe resume /some/run/directory",
        "dppipe ledger verify /some/run/directory",
        "`noise_multiplier: auto`",
    ],
)
@pytest.mark.parametrize("width", [30, 50, 80])
def test_a_path_or_a_command_is_never_broken(
    monkeypatch: pytest.MonkeyPatch, whole: str, width: int
) -> None:
    message = f"{whole} {LONG}" if "/data" in whole else f"model: {LONG}. Go on with {whole}"
    assert whole in fitted(message, width, monkeypatch)


def test_lines_of_a_spec_in_a_message_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    excerpt = f"    11 | clipping: {LONG}\n       |           ^"
    assert excerpt in fitted(f"s.yaml:11:3: {LONG}\n{excerpt}", 40, monkeypatch)


def test_a_command_in_a_table_is_on_one_line() -> None:
    command = f"dppipe tensorboard {'/folder' * 12}"
    assert command in table({"run": "/folder" * 12, "curves": command})
    assert max(map(len, table({"said": LONG * 2}).splitlines())) <= 80
    assert max(map(len, wrapped(LONG * 2).splitlines())) <= 80


def test_a_refusal_is_wrapped_in_a_real_terminal_and_whole_in_a_pipe(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dppipe", "compare", str(tmp_path / "missing")]
    piped = subprocess.run(words, capture_output=True, text=True).stderr
    assert piped.count("\n") == 1
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    subprocess.run(words, stderr=theirs, stdout=subprocess.DEVNULL)
    shown = os.read(ours, 10_000).decode().replace("\r\n", "\n")
    os.close(theirs)
    os.close(ours)
    assert str(tmp_path / "missing") in shown
    assert shown.count("\n") > 1
    assert " ".join(shown.split()) == " ".join(piped.split())
