"""`dppipe validate`: check a spec without touching a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins, SpecFiles
from dppipe.cli.printing.wrapping import table
from dppipe.cli.spec_file import read_spec
from dppipe.errors import SpecError

if TYPE_CHECKING:
    from dppipe.spec.spec import Spec


def validate(
    spec: SpecFiles,
    overrides: Overrides = None,
    plugins: Plugins = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Build model and data, too, and try them on made-up records."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a spec, and the headers of the files that it names.

    All problems are shown at once, with their lines and columns. No record is read.
    """
    from dppipe.spec.messages.layout import SpecRefusal
    from dppipe.spec.yaml.files import spec_name

    try:
        facts = _check(spec, overrides or [], plugins, deep=deep)
    except (SpecError, SpecRefusal) as error:
        if as_json:
            problems = [
                {
                    "place": problem.place,
                    "path": ".".join(map(str, problem.path)),
                    "message": problem.message,
                }
                for problem in error.problems
            ]
            typer.echo(json.dumps({"valid": False, "problems": problems}, indent=2))
        raise
    outlook = facts.pop("outlook")
    if as_json:
        scope = None if outlook is None else outlook.to_data()
        typer.echo(json.dumps({"valid": True} | facts | {"shared_budget": scope}, indent=2))
        return
    built = "; model and data can be built" if deep else ""
    typer.echo(f"{spec_name(spec)}: valid{built}")
    if outlook is not None:
        typer.echo(table(outlook.lines()))
    if facts["proof"] == "estimate":
        typer.echo("its accountant only estimates: `plan` shows it, `run` refuses it")
    for file, digest in facts["plugins"].items():
        typer.echo(f"uses {file} (sha256 {digest[:12]})")


def _check(
    path: list[Path], overrides: list[str], plugins: Path | None, *, deep: bool
) -> dict[str, Any]:
    from dppipe.cli.printing.scope_outlook import spec_outlook
    from dppipe.spec.load import placing_problems
    from dppipe.spec.rules.between_blocks import find_proof
    from dppipe.spec.spec import spec_hash

    with placing_problems(path, overrides=overrides):
        spec = read_spec(path, overrides=overrides, plugins=plugins, files=True)
        if deep:
            _build(spec)
        scoped = spec.budget != "none" and spec.budget.scope is not None
        outlook = spec_outlook(spec) if scoped else None
    proof = find_proof(spec)
    return {
        "name": spec.name,
        "deep": deep,
        "private": spec.private and not spec.reproducible,
        "proof": proof.status if proof else None,
        "hash": spec_hash(spec),
        "plugins": spec.plugin_files(),
        "outlook": outlook,
    }


def _build(spec: Spec) -> None:
    """Refuse a spec whose model or data can't be built, with all that is wrong."""
    from dppipe.pipeline.doctor import find_build_problems

    problems = find_build_problems(spec)
    if problems:
        raise SpecError(problems)
