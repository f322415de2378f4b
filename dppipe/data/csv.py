"""Delimited text: columns that are declared with the public constants that encode them.

Read next: `columns/options.py`, which options a table has; `tables/delimited.py`, how rows are
read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.columns.options import TableOptions
from dppipe.data.tables.delimited import DelimitedFile, Layout

if TYPE_CHECKING:
    from dppipe.data.tables.blocks import TableFile


class Csv(TableOptions, kind="csv"):
    """A table as a text file, gzipped or not. Columns that aren't declared are left out.

    White space around values doesn't count.

    Guarantee: means, deviations, lists of values and classes are options; nothing is fitted to the
    records, except statistics that `normalize` pays for.
    """

    delimiter: str = Field(
        ",", pattern=r'^[^" \r\n]$', description="The character that separates fields."
    )
    header: bool = Field(True, description="Whether the first row names the columns.")
    names: tuple[str, ...] | None = Field(
        None, description="The names of all columns, where the file has no header."
    )
    comment: str = Field("", description="Rows that start with this are skipped.")

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        if self.header == (self.names is not None):
            raise ValueError("expected names with header: false, and only there. State either.")
        return self

    def table(self, path: Path, *, key: str) -> TableFile:
        """Return the delimited file that `data.<key>` names."""
        return DelimitedFile(path, Layout(self.delimiter, self.names, self.comment), key)
