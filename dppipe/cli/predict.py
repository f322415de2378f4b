"""`dppipe predict`: the predictions of a finished run for new records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.options import Plugins, RunPath
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow


def predict(
    run: RunPath,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="New records: a table with the columns that the model learned from, in any order, "
            "an .npz or .npy file of raw inputs, or IDX images.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write them: .parquet or .csv; without it, CSV is printed."),
    ] = None,
    plugins: Plugins = None,
) -> None:
    """Predict new records with a finished run.

    Records come in their raw form. Scaling, columns, categories and features are the run's own.
    It costs no privacy.
    """
    from dppipe.pipeline.prediction.predictor import Predictor

    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise UsageError(f"--out: expected a name that ends in .parquet or .csv, got {out}.")
    if out is not None and out.exists():
        raise UsageError(f"--out: expected a new file, got {out}, which is there. Choose another.")
    tables = Predictor.open(run, plugins=plugins).tables(data)
    if out is None:
        _write_csv(tables, sys.stdout.buffer)
        return
    part = out.with_name(f"{out.name}.part")
    try:
        rows = _write(tables, part, parquet=out.suffix == ".parquet")
        part.rename(out)
    except OSError as error:
        raise UsageError(f"--out: expected a place to write to, got: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
    typer.echo(f"wrote {rows} predictions to {out}")


def _write(tables: Iterator[pyarrow.Table], path: Path, *, parquet: bool) -> int:
    if not parquet:
        with path.open("wb") as file:
            return _write_csv(tables, file)
    from pyarrow.parquet import ParquetWriter

    rows = 0
    writer = None
    try:
        for table in tables:
            writer = writer or ParquetWriter(path, table.schema)
            writer.write_table(table)
            rows += len(table)
    finally:
        if writer is not None:
            writer.close()
    return rows


def _write_csv(tables: Iterator[pyarrow.Table], file: Any) -> int:
    from pyarrow import csv

    rows = 0
    for table in tables:
        csv.write_csv(table, file, csv.WriteOptions(include_header=rows == 0))
        rows += len(table)
    return rows
