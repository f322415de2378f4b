"""What a data kind is: where records come from, what is public about them, and how they are split.

Everything a plan needs (the number of records, shapes, the task) is known without reading a record: from the options, from a
file's header, or from constants of a published data set. Only `load` reads records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import model_validator

from dppipe.component import Component, Field, Options
from dppipe.errors import Problem, SpecError

if TYPE_CHECKING:
    from torch.utils.data import Dataset

Task = Literal["multiclass", "binary", "regression"]


class Split(Options):
    """Shares of the records; the split is drawn from the public `seed`."""

    train: float = Field(0.8, gt=0, le=1, description="The share that is trained on.")
    val: float = Field(0.1, ge=0, lt=1, description="The share that validates.")
    test: float = Field(0.1, ge=0, lt=1, description="The share that `dppipe evaluate` scores, once.")

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.train + self.val + self.test > 1 + 1e-9:
            raise ValueError(f"expected shares that sum to at most 1, got {self.train + self.val + self.test:g}. Lower one.")
        return self

    def counts(self, records: int) -> tuple[int, int, int]:
        """Give the number of training, validation and test records."""
        val, test = int(self.val * records), int(self.test * records)
        return min(round(self.train * records), records - val - test), val, test


class Splits(NamedTuple):
    """The data sets of a run; each item is a pair of input and target."""

    train: Dataset[Any]
    val: Dataset[Any] | None
    test: Dataset[Any] | None


class Data(Component):
    """Where records come from.

    Guarantee: `count`, `input_shape`, `outputs`, `task` and `synthetic` never read a record.
    """

    records: int | None = Field(None, gt=0, description="The number of records, where no file header tells it.")
    split: Split = Field(Split(), description="Shares of training, validation and test records.")
    holdout: Literal["public", "private"] = Field(
        "private", description="Whether validation and test records are sensitive too; their metrics are then non-private."
    )

    @property
    def task(self) -> Task:
        """What is predicted: one of several classes, one of two, or numbers."""
        raise NotImplementedError

    @property
    def input_shape(self) -> Sequence[int]:
        """The shape of one input, without the batch dimension."""
        raise NotImplementedError

    @property
    def outputs(self) -> int:
        """The number of model outputs: classes, 1 for a binary task, or the number of targets."""
        raise NotImplementedError

    def count(self) -> int:
        """Give the number of all records, before any split."""
        if self.records is None:
            raise SpecError(
                [Problem(("data", "records"), "expected the number of records, got nothing. State it: no file header does.")]
            )
        return self.records

    def train_count(self) -> int:
        """Give the number of training records."""
        return self.split.counts(self.count())[0]

    def load(self) -> Dataset[Any] | Splits:
        """Read the records: all of them, to be split by `split`, or data sets that are split already."""
        raise NotImplementedError

    def splits(self, *, seed: int) -> Splits:
        """Read the records and split them by the public seed."""
        from torch.utils.data import Subset  # noqa: F401

        raise NotImplementedError  # written with the kinds

    def synthetic(self, n: int) -> Any:
        """Make a batch of `n` made-up examples of the right shapes and types; it feeds self-checks, never training."""
        raise NotImplementedError  # written with the kinds
