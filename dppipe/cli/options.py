"""Options and arguments that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dppipe.cli.completion import complete_overrides

SpecFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="SPEC...",
        help="The spec's YAML file; of several, each is laid over those before it.",
        show_default=False,
    ),
]
SpecPath = Annotated[
    Path, typer.Argument(metavar="SPEC", help="The spec's YAML file.", show_default=False)
]
RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run directory.", show_default=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value, such as clipping.max_grad_norm=0.5.",
        autocompletion=complete_overrides,
    ),
]
Plugins = Annotated[
    Path | None, typer.Option("--plugins", metavar="DIR", help="The folder of plugin files.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
