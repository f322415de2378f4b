"""`dppipe schema`: the JSON schema of a spec, for editors."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dppipe.cli.options import Plugins


def schema(plugins: Plugins = None) -> None:
    """Print the JSON schema of a spec, plugins included.

    An editor that knows YAML schemas completes and checks a spec that begins with the line
    `# yaml-language-server: $schema=dppipe.schema.json`, where that file is beside the spec.
    `dppipe init` writes both.
    """
    typer.echo(schema_text(plugins), nl=False)


def schema_text(plugins: Path | None = None) -> str:
    """Return the JSON schema of a spec as the text of a file."""
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.schema import json_schema

    return json.dumps(json_schema(Registry(plugins)), indent=2) + "\n"
