"""New rows of a table, for predictions: its inputs, without the target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.data.columns.inputs import TableInputs
from dppipe.data.reading.bad_records import bad_record
from dppipe.data.reading.new_inputs import NewInputs
from dppipe.data.tables.delimited import DelimitedFile, Layout
from dppipe.data.tables.given_rows import block_of_rows
from dppipe.data.tables.parquet_file import ParquetTable
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.data.tables.blocks import Columns, TableFile


def new_table(path: Path, *, like: TableFile) -> TableFile:
    """Return a file of new records: parquet, or delimited text as the data's own file."""
    if not path.is_file():
        raise UsageError(f"{path}: expected a file of records, got none. Correct the path.")
    if path.suffix == ".parquet":
        return ParquetTable(path, "path")
    if isinstance(like, DelimitedFile):
        return like
    return DelimitedFile(path, Layout(",", None, ""), "path")


def read_new_rows(
    table: TableFile, inputs: TableInputs, names: Columns, *, drop: bool, notice: str | None
) -> Iterator[NewInputs]:
    """Yield the inputs of some rows at a time.

    Args:
        table: The file.
        inputs: What the columns become.
        names: The columns, in the order of the inputs.
        drop: Whether a row that can't be used is marked, rather than refused.
        notice: What a message adds about a line with a wrong number of fields; None to mark it.
    """
    import torch

    for block in table.blocks(names, misfit_notice=notice):
        found = inputs.encode(block, with_target=False)
        if found.fault is not None and not drop:
            place = table.place(block.first + found.fault.row, found.fault.column)
            raise bad_record(place, found.fault.message)
        yield NewInputs(torch.from_numpy(found.inputs), found.valid)


def encode_rows(inputs: TableInputs, rows: Any) -> Tensor:  # -> [n, inputs]
    """Return the inputs of rows that a program hands over; refuse one that can't be used."""
    import torch

    names = [column.column for column in inputs.columns]
    found = inputs.encode(block_of_rows(rows, names), with_target=False)
    if found.fault is not None:
        raise UsageError(
            f"row {found.fault.row + 1}, column {found.fault.column}: {found.fault.message}"
        )
    return torch.from_numpy(found.inputs)
