"""`dppipe schema`: the JSON schema of a spec, for editors."""

from __future__ import annotations

import json

import typer

from dppipe.cli.options import Plugins


def schema(plugins: Plugins = None) -> None:
    """Print the JSON schema of a spec, plugins included.

    An editor that knows YAML schemas completes and checks a spec that begins with the line
    `# yaml-language-server: $schema=spec.schema.json`.
    """
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.schema import json_schema

    typer.echo(json.dumps(json_schema(Registry(plugins)), indent=2))
