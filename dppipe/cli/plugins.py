"""`dppipe plugins`: the kinds there are, a start for a new one, and checks that try to break it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson, Plugins
from dppipe.cli.printing.wrapping import fill
from dppipe.errors import UsageError
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.plugin_kit import CheckedKind, KindFacts, OptionFacts

app = typer.Typer(help="Write and check kinds of your own.", no_args_is_help=True)


@app.command("list")
def list_plugins(
    block: Annotated[
        str | None,
        typer.Argument(
            metavar="BLOCK",
            help="A block of the spec, such as clipping; else all.",
            show_default=False,
        ),
    ] = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """List kinds, built-in or not: file, purpose and options."""
    from dppipe.plugin_kit.listing import list_kinds, unread_files
    from dppipe.spec.kinds.registry import Registry

    registry = Registry(plugins)
    found, unread = list_kinds(registry, block=block), unread_files(registry)
    if as_json:
        typer.echo(
            json.dumps({"kinds": [facts.to_data() for facts in found], "unread": unread}, indent=2)
        )
        return
    typer.echo("\n".join(kinds_text(found)))
    for file in unread:
        typer.echo(f"not read: {file}", err=True)


@app.command()
def new(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="clipper, schedule, model, data, optimizer or learner.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The name that a spec will use.", show_default=False),
    ],
    folder: Annotated[
        Path, typer.Option("--dir", "--plugins", metavar="DIR", help="The folder of plugin files.")
    ] = Path("plugins"),
) -> None:
    """Write a plugin that works, its test and its spec.

    All three work before the first edit; files that are there stay as they are.
    """
    from dppipe.plugin_kit.scaffold import write_plugin
    from dppipe.spec.kinds.plugins import show_path

    written = write_plugin(what, name, folder=folder)
    for file in (written.plugin, written.test, written.pipeline):
        typer.echo(f"wrote {show_path(file)}")
    check = shown_command("plugins", "check", show_path(written.plugin))
    typer.echo(f"next: {check}")
    typer.echo(f"then: {shown_command('run', show_path(written.pipeline), *written.options)}")


@app.command()
def check(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A plugin file; else every one of the folder.", show_default=False
        ),
    ] = None,
    plugins: Plugins = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="OPTION=VALUE",
            help="An option to try FILE's kind with, such as path=words.npz.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try to break a plugin, and say what was tried.

    It ends with exit code 1 if something broke.
    """
    from dppipe.plugin_kit.checking import check_file, check_folder
    from dppipe.plugin_kit.checks.variations import read_options

    with redirect_stdout(sys.stderr):  # what a plugin prints isn't part of the report
        options = read_options(overrides or ())
        if options and file is None:
            raise UsageError("--set: expected FILE, whose kind has the option, got none. Name it.")
        checked = check_folder(plugins) if file is None else check_file(file, options=options)
        checked = [_with_influence(kind) for kind in checked]
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "ok": all(kind.ok for kind in checked),
                    "kinds": [kind.to_data() for kind in checked],
                },
                indent=2,
            )
        )
    else:
        typer.echo("\n".join(line for kind in checked for line in checked_text(kind)))
    if not all(kind.ok for kind in checked):
        raise typer.Exit(1)


def _with_influence(checked: CheckedKind) -> CheckedKind:
    """Add the influence probe of an audit to the checks of a clipper or a learner."""
    from dppipe.audit.plugin_influence import PROBED, probe_plugin
    from dppipe.plugin_kit.checking import Outcome

    if checked.block not in PROBED or not checked.ok:
        return checked
    ok, measured = probe_plugin(checked.block, checked.kind, folder=Path(checked.file).parent)
    title = "in a real release no canary moves a sum by more than its bound"
    return replace(checked, outcomes=(*checked.outcomes, Outcome(title, ok, measured)))


def kinds_text(found: list[KindFacts]) -> Iterator[str]:
    """Lay kinds out for a person, family by family."""
    block = None
    for facts in found:
        if facts.block != block:
            yield from ([] if block is None else [""])
            block = facts.block
            yield f"{block}:"
        yield _fill(f"{facts.kind}  ({facts.source})" if facts.source else facts.kind, indent=2)
        yield from ([_fill(facts.help, indent=6)] if facts.help else [])
        yield from ([_fill(f"CAN'T BE USED: {facts.problem}", indent=6)] if facts.problem else [])
        for option in facts.options:
            yield _fill(f"{option.name}: {option.takes}{_default(option)}", indent=6, hanging=4)


def checked_text(kind: CheckedKind) -> Iterator[str]:
    """Lay the checks of one kind out for a person: what was tried, and what broke."""
    yield f"{kind.file}: {f'{kind.block} {kind.kind}' if kind.kind else 'no kind'}"
    said: set[str] = set()
    for outcome in kind.outcomes:
        mark = "ok  " if outcome.ok else "FAIL"
        remark = "the same" if not outcome.ok and outcome.remark in said else outcome.remark
        yield _fill(
            f"{mark}  {outcome.check}{f': {remark}' if remark else ''}", indent=2, hanging=6
        )
        said.add(outcome.remark)
    failed = sum(not outcome.ok for outcome in kind.outcomes)
    yield f"  {len(kind.outcomes)} tried, {failed} failed"


def _default(option: OptionFacts) -> str:
    if option.required:
        return "; required"
    if option.default in (None, [], {}):
        return ""
    plain = isinstance(option.default, str) and option.default.isidentifier()
    return f"; default {option.default if plain else json.dumps(option.default)}"


def _fill(text: str, *, indent: int, hanging: int = 0) -> str:
    return fill(text, first=" " * indent, rest=" " * (indent + hanging))
