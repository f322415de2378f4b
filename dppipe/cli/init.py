"""`dppipe init`: write a commented spec to start from, and the schema that editors check it by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dppipe.cli.schema import schema_text
from dppipe.errors import UsageError
from dppipe.text_layout import shown_command

SCHEMA = "dppipe.schema.json"
"""The file beside a spec that editors read."""
STARTER = """\
# A private model of handwritten digits. Check it with `dppipe validate`, see what it costs with
# `dppipe plan`, train it with `dppipe run`. `dppipe plugins list` describes every option.
version: 1
name: digits
seed: 7                        # weights and public splits; never the sampler or the noise

data:      {kind: digits, holdout: public}            # 1,797 images that come with dppipe
model:     {kind: mlp, hidden: [128]}
optimizer: {kind: sgd, lr: 0.25, momentum: 0.9}

sampler:   {kind: poisson, expected_batch_size: 256}  # each record joins each step by its own coin
clipping:  {kind: flat, max_grad_norm: 1.0}           # no record moves a step by more than this
noise:     {kind: constant, noise_multiplier: auto}   # auto: as much as the budget asks for
accountant: {kind: pld}
budget:    {epsilon: 3.0, delta: 1.0e-5}              # never exceeded; `none`: no privacy
train:     {epochs: 20}                               # or steps: N, or until: budget
"""


def init(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Where to write it.")] = Path(
        "pipeline.yaml"
    ),
    table: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="TABLE",
            help="A parquet or CSV file: the spec names its columns. Of parquet only the schema is "
            "read, of CSV only the first line.",
        ),
    ] = None,
    schema: Annotated[
        bool,
        typer.Option(help="Write dppipe.schema.json beside it, by which editors check the spec."),
    ] = True,
) -> None:
    """Write a spec to start from. A file that is there already stays as it is.

    Editors that know YAML schemas find the schema by the spec's first line, without a network.
    """
    text = STARTER if table is None else _starter_of(table)
    if schema:
        text = f"# yaml-language-server: $schema={SCHEMA}\n{text}"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(
            f"{path}: expected a new file, got one that is there. Choose another name."
        ) from error
    except OSError as error:
        raise UsageError(
            f"{path}: expected a place to write to, got: {error.strerror}. Choose another one."
        ) from error
    if schema:
        _write_schema(path.with_name(SCHEMA))
    if table is None:
        typer.echo(f"wrote {path}; next: {shown_command('plan', path)}")
        return
    command = shown_command("validate", path)
    typer.echo(f"wrote {path}; next: replace each TODO in it, then {command}")
    if table.suffix != ".parquet":
        typer.echo(
            f"The names of the columns are the first line of {table}. If that is a record, delete "
            f"{path}."
        )


def _write_schema(path: Path) -> None:
    """Write the schema of all kinds that are known here, unless it is there already."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(schema_text())
        typer.echo(f"wrote {path}, for editors; `dppipe schema` prints it anew")
    except FileExistsError:
        typer.echo(f"{path} is there already: editors read that one")
    except OSError as error:
        typer.echo(f"{path}: not written: {error.strerror}. Editors won't check the spec.")


def _starter_of(table: Path) -> str:
    from dppipe.data.tables.starter import starter_spec

    if not table.is_file():
        raise UsageError(f"--from: expected a file, got {table}. Correct the path.")
    return starter_spec(table)
