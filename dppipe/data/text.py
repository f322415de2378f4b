"""Texts in a file, with what is predicted of each: delimited, JSON lines or parquet.

Read next: `texts/files.py`, how records are read; `texts/tokenizers/base.py`, what tokenizers are;
`texts/encoding.py`, what a record becomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.base import Data, Splits, Task
from dppipe.data.columns.target import Target
from dppipe.data.reading.bad_records import bad_record
from dppipe.data.reading.tensors import class_task
from dppipe.data.splitting.parts import refuse_test_share
from dppipe.data.tables.parquet_file import ParquetTable
from dppipe.data.texts.encoding import Keep, TextInputs
from dppipe.data.texts.files import Format, TextLayout, text_file
from dppipe.data.texts.reading import misfit_notice, read_texts
from dppipe.data.texts.tokenizers.option import AnyTokenizer
from dppipe.data.texts.tokenizers.words import Words
from dppipe.errors import Problem, SpecError, UsageError
from dppipe.input_layout import InputLayout

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import TensorDataset

    from dppipe.data.reading.new_inputs import NewInputs
    from dppipe.data.tables.blocks import Columns, TableFile


class Text(Data, kind="text"):
    """Texts, one a record, as token ids of one length; id 0 fills short ones up.

    Guarantee: tokenizers, classes and constants are options or public files; nothing is fitted to
    the records.
    """

    checks_records: ClassVar[bool] = True

    path: Path = Field(description="The file, gzipped or not.")
    test_path: Path | None = Field(
        None, description="A second file, whose records are the test records."
    )
    format: Format | None = Field(
        None, description="How the files are written; if not stated, their names say it."
    )
    names: tuple[str, ...] | None = Field(
        None, min_length=1, description="The names of all columns, where the file has no header."
    )
    quotes: bool | None = Field(
        None,
        description="Whether fields of delimited text may stand in quotation marks; if not stated, "
        "those of csv may, and those of tsv don't.",
    )
    text: str | tuple[str, ...] = Field(
        "text", min_length=1, description="The column of texts, or several, which are joined."
    )
    target: Target = Field(description="The column that is predicted.")
    predict: Literal["text", "words"] = Field(
        "text",
        description="Whether the target is one value for the whole text, or holds a class for each "
        "of its words, separated by spaces.",
    )
    tokenizer: AnyTokenizer = Field(
        Words(), description="The public rules by which a text becomes token ids."
    )
    max_length: int = Field(256, gt=0, description="How many tokens of a text are kept.")
    keep: Keep = Field("start", description="Which end of a longer text is kept.")
    missing: tuple[str, ...] = Field(("",), description="Targets that mean a missing value.")
    user: str | None = Field(
        None, description="The column that says whose each record is, for `sampler: user`."
    )

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.users is not None and self.user is None:
            raise ValueError(
                "expected user, a column, beside users, got none. Say whose each record is."
            )
        name, times = Counter(self.column_names.values()).most_common(1)[0]
        if times > 1:
            raise ValueError(f"expected each column once, got {name!r} {times} times.")
        if self.test_path is not None:
            refuse_test_share(self.split, beside="test_path")
        if self.predict == "words" and self.target.classes is None:
            raise ValueError("expected target.classes beside predict: words, got none. List them.")
        if self.predict == "words" and not self.tokenizer.one_per_word:
            raise ValueError(
                "expected a tokenizer with one token for each word beside predict: words, such as "
                f"{{kind: words, split: spaces}}, got {self.tokenizer.kind}. Change it."
            )
        return self

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of texts."""
        return (self.text,) if isinstance(self.text, str) else self.text

    @property
    def column_names(self) -> dict[tuple[str | int, ...], str]:
        """Every column that is read, by its key in the spec: texts, target, user."""
        named = self._text_names()
        named["data", "target", "column"] = self.target.column
        if self.user is not None:
            named["data", "user"] = self.user
        return named

    def _text_names(self) -> dict[tuple[str | int, ...], str]:
        if isinstance(self.text, str):
            return {("data", "text"): self.text}
        return {("data", "text", place): name for place, name in enumerate(self.text)}

    @property
    def inputs(self) -> TextInputs:
        """How a record's texts become token ids."""
        return TextInputs(
            self.text_columns,
            self.tokenizer,
            self.max_length,
            self.keep,
            self.target,
            self.missing,
            self.predict == "words",
        )

    @property
    def task(self) -> Task:
        if self.predict == "words":
            return "tagging"
        if self.target.classes is None:
            return "regression"
        return class_task(len(self.target.classes))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.max_length,)

    @property
    def input_layout(self) -> InputLayout:
        per_token = self.task == "tagging"
        return InputLayout(self.input_shape, vocabulary=self.tokenizer.ids, per_token=per_token)

    @property
    def outputs(self) -> int:
        if self.task in ("multiclass", "tagging"):
            return len(self.target.class_names)
        return 1

    @property
    def public_files(self) -> tuple[Path, ...]:
        """The file of the tokenizer, which is taken as public; the statement names it."""
        file = self.tokenizer.public_file
        return () if file is None else (file,)

    @property
    def class_labels(self) -> tuple[str, ...]:
        return self.target.class_names

    def in_units_of_the_target(self, numbers: Any) -> Any:
        return numbers * self.target.std + self.target.mean

    @property
    def by_users(self) -> bool:
        return self.user is not None

    def count(self) -> int:
        table = self.table(self.path, key="path")
        if isinstance(table, ParquetTable):
            return self.known_count(table.rows)
        return super().count()

    def record_files(self) -> list[Path]:
        return [self.path]

    def table(self, path: Path, *, key: str) -> TableFile:
        """Return the file that `data.<key>` names."""
        return text_file(path, TextLayout(self.format, self.names, self.quotes), key=key)

    def check_files(self) -> None:
        problems: list[Problem] = []
        for key in ("path", "test_path"):
            path = getattr(self, key)
            try:
                if path is not None:
                    self.table(path, key=key).check(self.column_names)
            except SpecError as error:
                problems += error.problems
        try:
            self.tokenizer.check_files()
        except SpecError as error:
            problems += error.problems
        if problems:
            raise SpecError(problems)

    def load(self) -> TensorDataset | Splits:
        records = self._read(self.path, key="path")
        if self.test_path is None:
            return records
        return Splits(train=records, val=None, test=self._read(self.test_path, key="test_path"))

    def _read(self, path: Path, *, key: str) -> TensorDataset:
        return read_texts(
            self.table(path, key=key),
            self.inputs,
            self.column_names,
            drop=self.drops_bad_records,
            by_users=self.by_users,
        )

    def new_inputs(self, path: Path) -> Iterator[NewInputs]:
        """Read the columns of texts; the target needn't be there."""
        import torch

        from dppipe.data.reading.new_inputs import NewInputs

        if not path.is_file():
            raise UsageError(f"{path}: expected a file of records, got none. Correct the path.")
        table = self._new_table(path)
        names: Columns = self._text_names()
        notice = misfit_notice(drop=self.drops_bad_records, by_users=False)
        for block in table.blocks(names, misfit_notice=notice):
            found = self.inputs.encode(block, with_target=False)
            if found.fault is not None and not self.drops_bad_records:
                place = table.place(block.first + found.fault.row, found.fault.column)
                raise bad_record(place, found.fault.message)
            yield NewInputs(torch.from_numpy(found.inputs), found.valid)

    def _new_table(self, path: Path) -> TableFile:
        try:
            return text_file(path, TextLayout(None, self.names, self.quotes), key="path")
        except SpecError:  # its name doesn't say how it is written
            return self.table(path, key="path")

    def encode_rows(self, rows: Any) -> Tensor:  # -> [n, max_length]
        """Return the ids of rows: texts, a pyarrow table, a data frame, or dictionaries."""
        import torch

        from dppipe.data.tables.given_rows import block_of_rows

        columns = self.text_columns
        is_texts = isinstance(rows, list | tuple) and all(isinstance(row, str) for row in rows)
        if is_texts and len(columns) == 1:
            rows = [{columns[0]: row} for row in rows]
        found = self.inputs.encode(block_of_rows(rows, columns), with_target=False)
        if found.fault is not None:
            place = f"row {found.fault.row + 1}, column {found.fault.column}"
            raise UsageError(f"{place}: {found.fault.message}")
        return torch.from_numpy(found.inputs)
