"""`dppipe recipes`: specs that come with dppipe, to look at and to start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dppipe.cli.completion import complete_recipes
from dppipe.cli.options import AsJson
from dppipe.cli.printing.wrapping import fill
from dppipe.text_layout import shown_command

app = typer.Typer(help="Specs to start from.", no_args_is_help=True)


@app.command("list")
def list_recipes(as_json: AsJson = False) -> None:
    """List the specs that come with dppipe."""
    from dppipe.cli.recipe_files import find_recipes

    recipes = find_recipes()
    if as_json:
        data = [{"name": recipe.name, "about": recipe.about} for recipe in recipes]
        typer.echo(json.dumps(data, indent=2))
        return
    for recipe in recipes:
        typer.echo(recipe.name)
        typer.echo(fill(recipe.about, first="    ", rest="    "))


@app.command()
def copy(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A name that `list` shows.",
            show_default=False,
            autocompletion=complete_recipes,
        ),
    ],
    folder: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="The folder to copy into.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Copy a spec, with all the files that it needs.

    The copy runs from the working directory. A file that is there already stays as it is.
    """
    from dppipe.cli.recipe_files import copy_recipe

    copied = copy_recipe(name, folder=folder)
    command = shown_command("run", copied.spec, *copied.options)
    if as_json:
        written = [str(path) for path in (copied.spec, *copied.others)]
        typer.echo(json.dumps({"written": written, "command": command}, indent=2))
        return
    for path in (copied.spec, *copied.others):
        typer.echo(f"wrote {path}")
    typer.echo(f"next: {command}")
