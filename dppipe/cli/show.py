"""`dppipe show`: the effective spec, defaults filled in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins, SpecFiles
from dppipe.cli.printing.wrapping import WIDTH
from dppipe.cli.spec_file import read_spec

if TYPE_CHECKING:
    from dppipe.spec.origins import Origin


def show(
    spec_path: SpecFiles,
    overrides: Overrides = None,
    plugins: Plugins = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="Say of each value which file and line it is from.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the spec that a run would use, with its defaults.

    All files and overrides are in it. Environment variables are shown by their names. It can be
    saved and run.
    """
    from dppipe.spec.load import placing_problems
    from dppipe.spec.origins import find_origins

    with placing_problems(spec_path, overrides=overrides or ()):
        spec = read_spec(spec_path, overrides=overrides, plugins=plugins)
    if not sources:
        text = json.dumps(spec.to_data(), indent=2) if as_json else spec.to_yaml().rstrip()
        typer.echo(text)
        return
    origins = find_origins(spec, spec_path, overrides=overrides or ())
    if as_json:
        typer.echo(json.dumps([_entry(origin) for origin in origins], indent=2))
    else:
        typer.echo(origins_text(origins))


def origins_text(origins: list[Origin]) -> str:
    """Lay out a line for each value; a place that doesn't fit beside it stands below."""
    shown = []
    for origin in origins:
        value = origin.value if isinstance(origin.value, str) else json.dumps(origin.value)
        shown.append((f"{'.'.join(map(str, origin.path))}: {value}", origin.place))
    width = max((len(text) for text, _ in shown if len(text) <= WIDTH // 2), default=0)
    lines = []
    for text, place in shown:
        if len(text) <= width:
            lines.append(f"{text:<{width}}  {place}")
        else:
            lines += [text, f"{'':<{width}}  {place}"]
    return "\n".join(lines)


def _entry(origin: Origin) -> dict[str, Any]:
    path = ".".join(map(str, origin.path))
    return {"path": path, "value": origin.value, "source": origin.place}
