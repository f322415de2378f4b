"""Parquet files: columns that are declared with the public constants that encode them.

Read next: `columns/options.py`, which options a table has; `tables/parquet_file.py`, how rows are
read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.data.columns.options import TableOptions
from dppipe.data.tables.parquet_file import ParquetTable

if TYPE_CHECKING:
    from dppipe.data.tables.blocks import TableFile


class Parquet(TableOptions, kind="parquet"):
    """A table as a parquet file. Columns that aren't declared are left out.

    The number of records is the file's own, which it states beside its schema.

    Guarantee: means, bounds, lists of values and classes are options; nothing is fitted to the
    records, except statistics that `normalize` pays for.
    """

    def count(self) -> int:
        return self.known_count(ParquetTable(self.path, "path").rows)

    def table(self, path: Path, *, key: str) -> TableFile:
        """Return the parquet file that `data.<key>` names."""
        return ParquetTable(path, key)
