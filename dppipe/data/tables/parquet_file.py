"""Parquet files: read some rows at a time, so that a large one needs little memory.

Only names and physical types of the schema and the number of rows are looked at beside the wanted
columns. Statistics of row groups, dictionaries and other metadata were computed from records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.data.reading.files import find_file
from dppipe.data.tables.blocks import Block, Columns, refuse_unknown
from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile

CHUNK = 65_536
"""How many rows are read at once."""


@dataclass(frozen=True)
class ParquetTable:
    """A parquet file."""

    path: Path
    key: str
    """The option that names the file."""

    @property
    def rows(self) -> int:
        """The number of rows, which the file states beside its schema."""
        with self._opened() as file:
            return int(file.metadata.num_rows)

    def schema(self) -> pyarrow.Schema:
        """Return the columns' names and types."""
        with self._opened() as file:
            return file.schema_arrow.remove_metadata()

    def check(self, columns: Columns) -> None:
        """Refuse columns that aren't in the schema, or that hold lists or structures."""
        import pyarrow

        schema = self.schema()
        refuse_unknown(columns, schema.names, where=f"of {self.path}")
        problems = []
        for key, name in columns.items():
            kind = schema.field(name).type
            if pyarrow.types.is_nested(kind) or pyarrow.types.is_binary(kind):
                message = f"expected a column of numbers, texts or dates, got {name!r}: {kind}."
                problems.append(Problem(key, message))
        if problems:
            raise SpecError(problems)

    def blocks(self, columns: Columns, *, misfit_notice: str | None) -> Iterator[Block]:
        """Read the wanted columns; see `TableFile.blocks`."""
        self.check(columns)
        wanted = list(columns.values())
        first = 0
        with self._opened() as file:
            for batch in file.iter_batches(batch_size=CHUNK, columns=list(dict.fromkeys(wanted))):
                if len(batch):
                    yield Block([batch.column(name) for name in wanted], first)
                    first += len(batch)

    def place(self, row: int, column: str) -> str:
        """Return the number of a value's row, from 1, and its column."""
        return f"{self.path}: row {row + 1}, column {column}"

    @contextmanager
    def _opened(self) -> Iterator[ParquetFile]:
        import pyarrow
        from pyarrow.parquet import ParquetFile

        find_file(self.path, key=self.key)
        try:
            with ParquetFile(self.path, pre_buffer=False) as file:
                yield file
        except (pyarrow.ArrowException, OSError):
            # The library's message may show a value.
            raise UsageError(
                f"{self.path}: expected a whole parquet file, got one that can't be read. "
                "Copy it again, or write it anew."
            ) from None
