"""Made-up batches in the shapes and types of a dataset's records.

They are used for checks before the first charge.

Without a function of the user's own, shapes and types are those of a typical record among the
first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from dppipe.class_path import describe_failure
from dppipe.engine.losses import batch_rows
from dppipe.errors import RECORD_ERRORS, UsageError
from dppipe.learners.records.made_up import made_up_examples, made_up_row

if TYPE_CHECKING:
    from dppipe.learners.records.reading import RecordReader

FIRST_RECORDS = 100
"""How many records are tried to find some that can be read."""
COMPARED = 9
"""How many readable records are compared. One with their most common shape is typical: a few broken
ones can't be."""


class SyntheticBatches:
    """Makes up batches that look like a dataset's records; no value of a record goes into them."""

    def __init__(
        self, reader: RecordReader, *, records: int, own: Callable[[int], Any] | None
    ) -> None:
        self._reader = reader
        self._records = records
        self._own = own
        self._made_up: Any = None

    def make(self, count: int) -> Any:
        """Return a batch of made-up examples in the data's shapes and types."""
        if self._own is not None:
            return self._own(count)
        if self._made_up is None:
            self._made_up = self._make_up()

        def repeated(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and leaf.dim():
                return leaf[torch.arange(count) % len(leaf)]
            return leaf

        return tree_map(repeated, self._made_up)

    def like_a_record(self) -> Any:
        """Return a made-up row with the shapes and types of a record; None if there is none.

        Evaluating it shows whether made-up examples are like the records at all. Otherwise every
        record would be taken for a broken one.
        """
        if not self._records:
            return None  # a secret number of records may be none
        return made_up_row(self._reader.one(self._typical()), self.make(1))

    def _make_up(self) -> Any:
        """Make up examples like a typical record, and collate them like records."""
        example = self._reader.dataset[self._typical()]
        examples = made_up_examples(example, ranges=self._reader.ranges)
        try:
            batch = self._reader.stack_examples(examples)
            batch_rows(batch)
        except RECORD_ERRORS as error:
            raise UsageError(
                "loader: expected examples that can be stacked row by row, got made-up ones that "
                f"can't ({describe_failure(error)}). collate sees one example at a time and "
                "returns tensors with a first dimension of 1. Or give synthetic=, a function that "
                "makes up a batch of n."
            ) from error
        return batch

    def _typical(self) -> int:
        """Return the index of a record with the most common shape among the first."""
        kinds: dict[Any, list[int]] = {}
        readable = 0
        failure: BaseException | None = None
        tried = min(self._records, FIRST_RECORDS)
        for index in range(tried):
            try:
                kinds.setdefault(self._reader.kind(index), []).append(index)
                readable += 1
            except RECORD_ERRORS as error:
                failure = failure or error
            if readable == COMPARED:
                break
        if kinds:
            return max(kinds.values(), key=len)[0]
        what = "no record" if failure is None else describe_failure(failure)
        raise UsageError(
            f"loader: expected records that can be read and collated, got {what} for each of the "
            f"first {tried}. This is about private records. Fix the data set or collate."
        )
