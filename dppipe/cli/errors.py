"""How a command ends when something goes wrong: a message, an exit code, and no traceback unless it
is asked for.

An exception that dppipe didn't raise on purpose may contain a record's value in its text: only its
type and the place in the code are shown. `--debug`, anywhere on the command line, shows everything.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from dppipe.class_path import find_users_line
from dppipe.cli.printing.wrapping import fit_terminal
from dppipe.errors import DppipeError

_PACKAGE = Path(__file__).parents[1]


class Commands(TyperGroup):
    """The commands, with dppipe's way of failing."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run a command; it ends with the exit code of its error."""
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words
        before = threading.excepthook, sys.unraisablehook
        if not debug:
            # What goes wrong in a thread is raised where its work is waited for; here its text
            # could contain a record's value.
            threading.excepthook, sys.unraisablehook = (lambda _: None), (lambda _: None)
        try:
            return super().main([word for word in words if word != "--debug"], *rest, **options)
        except Exception as error:
            if debug:
                traceback.print_exc()
            else:
                typer.echo(fit_terminal(say_error(error), stream=sys.stderr), err=True)
            sys.exit(error.exit_code if isinstance(error, DppipeError) else 1)
        finally:
            threading.excepthook, sys.unraisablehook = before

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C ends it as a signal would."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None


def say_error(error: Exception) -> str:
    """Say what went wrong, without anything that could come from a record."""
    if isinstance(error, DppipeError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'output'}: {error.strerror}."
    if place := find_users_line(error):
        text = (
            "Its text could contain a record's value: --debug shows it, and `dppipe doctor` tries "
            "a model on made-up records."
        )
        return f"{place}: the code there failed: {type(error).__name__}. {text}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    place = (
        f" at dppipe/{Path(inside[-1].filename).relative_to(_PACKAGE)}:{inside[-1].lineno}"
        if inside
        else ""
    )
    return (
        f"internal error: {type(error).__name__}{place}. Run again with --debug to see all of it."
    )
