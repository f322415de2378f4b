"""Rows that a program hands over, as a block of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dppipe.data.tables.blocks import Block
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import pyarrow


def block_of_rows(rows: Any, names: Sequence[str]) -> Block:
    """Return the named columns of a pyarrow table, a data frame, or a list of dictionaries."""
    table = _as_table(rows)
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise UsageError(
            f"rows: expected the columns {', '.join(names)}, got none named {', '.join(missing)}."
        )
    return Block([table.column(name).combine_chunks() for name in names], 0)


def _as_table(rows: Any) -> pyarrow.Table:
    import pyarrow

    if isinstance(rows, pyarrow.Table):
        return rows
    try:
        if isinstance(rows, Sequence) and rows and all(isinstance(row, dict) for row in rows):
            return pyarrow.Table.from_pylist(list(rows))
        return pyarrow.table(rows)  # a data frame, by the protocol that it has for this
    except (TypeError, ValueError, pyarrow.ArrowException):
        raise UsageError(
            "rows: expected a pyarrow table, a data frame, or a list of dictionaries with one type "
            "in each column, got something else."
        ) from None
