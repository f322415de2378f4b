"""How commands read a spec: its problems get their places, and settings that have moved get a
hint.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dppipe.cli.printing.wrapping import fit_terminal

if TYPE_CHECKING:
    from dppipe.spec.spec import Spec
    from dppipe.spec.yaml.files import SpecFiles


def read_spec(
    path: SpecFiles,
    *,
    overrides: Sequence[str] | None = None,
    plugins: Path | None = None,
    files: bool = False,
) -> Spec:
    """Read the files of a spec; hints go to the error stream, once for all processes of a run.

    With `files`, the headers of the files that the spec names are looked at, too.
    """
    from dppipe.spec.load import find_hints, load_spec

    spec = load_spec(path, overrides=overrides or (), plugins=plugins, files=files)
    if first_rank():
        for hint in find_hints(path, overrides=overrides or ()):
            typer.echo(fit_terminal(f"hint: {hint}", stream=sys.stderr), err=True)
    return spec


def first_rank() -> bool:
    """Whether this process is the first, or the only one, of those that a launcher has started."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))
