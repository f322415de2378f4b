"""What a data kind is: where records come from, what is public about them, and how they are split.

Everything a plan needs (the number of records, shapes, the task) is known without reading a record: from the options, from a
file's header, or from constants of a published data set. Only `load` and `splits` read records.
Read next: `digits.py`, then `idx.py`; how files are read stands in `reading/`.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from dppipe.component import Component, Field
from dppipe.data.reading.tasks import Task
from dppipe.data.splitting.parts import Split, SplitBy, Splits, take
from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import Dataset

    from dppipe.data.reading.private_scaling import PrivateScaling
    from dppipe.data.reading.scaling import Constants

__all__ = [
    "Data",
    "Split",
    "SplitBy",
    "Splits",
    "Task",
    "draw_order",
    "split_records",
    "split_users",
    "take",
    "valid_part",
]

SYNTHETIC_SEED = 2**31 - 1
"""Not a seed that records are likely to be drawn from: made-up examples shouldn't be records of a made-up data set."""


class Data(Component):
    """Where records come from.

    An input is a float tensor of `input_shape`. A target is a class number (int64) of a multiclass task, 0.0 or 1.0 of a binary
    one, or a float tensor `[outputs]` of a regression. What fits in memory is loaded as a `TensorDataset`.

    Guarantee: `count`, `train_count`, `input_shape`, `outputs`, `task` and `synthetic` never read a record. A split by position
    depends on the seed and the number of records alone; in a split by hash a record's part depends on the seed and that record
    alone.
    """

    records: int | None = Field(
        None, gt=0, description="The number of records, where no file header tells it."
    )
    users: int | None = Field(
        None,
        gt=0,
        description="The number of users, for `sampler: user`; shares of the split are then shares of the users.",
    )
    split: Split = Field(Split(), description="Shares of training, validation and test records.")
    holdout: Literal["public", "private"] = Field(
        "private",
        description="Whether validation and test records are sensitive too; their metrics are then non-private.",
    )
    on_bad_record: Literal["refuse", "drop"] | None = Field(
        None,
        description="What becomes of a record that can't be used: `refuse` names its place and stops before anything is charged, "
        "`drop` keeps its place and leaves it out. Unless stated, `refuse` where dppipe reads files and `drop` for a class of "
        "your own.",
    )

    checks_records: ClassVar[bool] = False
    """Whether `load` checks each record, and refuses or marks a bad one as `on_bad_record` says."""

    if TYPE_CHECKING:
        # Declared, not defined: a kind may give each as a property or as an option, and an option can't shadow a property.

        @property
        def task(self) -> Task:
            """What is predicted: one of several classes, one of two, or numbers."""

        @property
        def input_shape(self) -> Sequence[int]:
            """The shape of one input, without the batch dimension."""

        @property
        def outputs(self) -> int:
            """The number of model outputs: classes, 1 for a binary task, or the number of targets."""

    @property
    def private_scaling(self) -> PrivateScaling | None:
        """The statistics of private records that the inputs are scaled by, where `normalize` asks for them."""
        from dppipe.data.reading.private_scaling import PrivateScaling

        normalize = getattr(self, "normalize", None)
        return normalize if isinstance(normalize, PrivateScaling) else None

    @property
    def public_scaling(self) -> tuple[Constants, ...]:
        """The public constants that `load` scales what a file holds by, in this order; a model of raw inputs repeats them."""
        from dppipe.data.reading.scaling import Constants

        normalize = getattr(self, "normalize", None)
        return (normalize,) if isinstance(normalize, Constants) else ()

    @property
    def scaled_features(self) -> int | None:
        """How many entries of an input's first dimension, from its start, private statistics scale; None for all."""
        return None

    def count(self) -> int:
        """Give the number of records that `split` shares out."""
        if self.records is None:
            message = "expected the number of records, got nothing. State it: no file header does."
            raise SpecError([Problem(("data", "records"), message)])
        return self.records

    def known_count(self, known: int) -> int:
        """Give the number of records that a constant or a header tells, unless `records` states another one."""
        if self.records not in (None, known):
            message = f"expected {known}, which is how many there are, got {self.records}. Correct it, or leave it out."
            raise SpecError([Problem(("data", "records"), message)])
        return known

    def train_count(self) -> int:
        """Give the number of training records."""
        train, _, _ = self.split.counts(self.count())
        if train < 1:
            message = "expected at least one training record, got a share that rounds to none. Raise `train`."
            raise SpecError([Problem(("data", "split"), message)])
        return train

    @property
    def by_users(self) -> bool:
        """Whether the data says whose each record is, and is split by users."""
        return self.users is not None

    def train_users(self) -> int:
        """Give the number of users whose records are trained on."""
        if self.users is None:
            message = (
                "expected the number of users, got nothing. State it: sampler: user draws them."
            )
            raise SpecError([Problem(("data", "users"), message)])
        train, _, _ = self.split.counts(self.users)
        if train < 1:
            message = "expected at least one user to train on, got a share that rounds to none. Raise `train`."
            raise SpecError([Problem(("data", "split"), message)])
        return train

    @property
    def drops_bad_records(self) -> bool:
        """Whether a record that can't be used is left out, rather than refused."""
        return self.on_bad_record == "drop" or (
            self.on_bad_record is None and not self.checks_records
        )

    def load(self) -> Dataset[Any] | Splits:
        """Read the records: all of them, to be split by `split`, or data sets that are split already.

        Where no validation records come with `Splits`, `split` takes them from the training records.
        """
        raise self.unwritten("load()")

    def splits(self, *, seed: int, by: SplitBy = "position") -> Splits:
        """Read the records and split them by the public seed; parts that come ready are kept.

        By position the number of records is public; by hash, for `add_remove`, nothing here compares or shows it.
        """
        from dppipe.data.reading.map_style import require_map_style
        from dppipe.data.reading.record_checks import refuse_bad_records

        loaded = self.load()
        ready = loaded if isinstance(loaded, Splits) else Splits(loaded, None, None)
        require_map_style(ready.train, place="data")
        if not self.checks_records and not self.drops_bad_records:
            refuse_bad_records(ready, self)
        if ready.val is None:
            ready = (
                self._split_by_hash(ready, seed=seed)
                if by == "hash"
                else self._split_by_position(ready, seed=seed)
            )
        # Training keeps the places of bad records, which its draws count; scores have no use for them.
        return Splits(ready.train, valid_part(ready.val), valid_part(ready.test))

    def _split_by_hash(self, ready: Splits, *, seed: int) -> Splits:
        from dppipe.data.splitting.by_hash import draw_parts

        train, val, test = draw_parts(ready.train, self.split, by_users=self.by_users, seed=seed)
        # Whether a part is there follows from its share, not from how many records fell into it.
        return Splits(
            train=take(ready.train, train),
            val=take(ready.train, val) if self.split.val else None,
            test=take(ready.train, test) if self.split.test and ready.test is None else ready.test,
        )

    def _split_by_position(self, ready: Splits, *, seed: int) -> Splits:
        records = len(cast(Sized, ready.train))
        if self.records not in (None, records):
            raise UsageError(
                f"data.records: expected the number of records in the data, {records}, got {self.records}."
            )
        if self.by_users:
            return split_users(ready, self.split, users=self.users, seed=seed)
        order = draw_order(records, seed=seed)
        train, val, test = self.split.counts(records)
        ready_test = (
            ready.test
            if ready.test is not None or not test
            else take(ready.train, order[train + val :][:test])
        )
        return Splits(
            train=take(ready.train, order[:train]),
            val=take(ready.train, order[train : train + val]) if val else None,
            test=ready_test,
        )

    @property
    def ranges(self) -> tuple[range | None, ...]:
        """The range of an input's and a target's integers, where they have one; a record outside contributes nothing."""
        return (None, range(self.outputs) if self.task == "multiclass" else None)

    def synthetic(self, n: int) -> Any:
        """Make a batch `(inputs, targets)` of `n` made-up examples; it feeds self-checks, never training."""
        import torch

        generator = torch.Generator().manual_seed(SYNTHETIC_SEED)
        inputs = torch.randn(n, *self.input_shape, generator=generator)
        if self.task == "multiclass":
            targets = torch.arange(n) % self.outputs
        elif self.task == "binary":
            targets = (torch.arange(n) % 2).float()
        else:
            targets = torch.randn(n, self.outputs, generator=generator)
        return inputs, targets


def split_records(data: Data, *, seed: int, by: SplitBy) -> Splits:
    """Read and split the records of a data kind; one of an earlier version splits by position alone."""
    return data.splits(seed=seed) if by == "position" else data.splits(seed=seed, by=by)


def split_users(ready: Splits, split: Split, *, users: int | None, seed: int) -> Splits:
    """Share out the users by the public seed, each with all records; the training data set keeps its records' users.

    `users` is how many there are said to be, where that is public.
    """
    import numpy

    from dppipe.data.reading.users import check_users, users_of, with_users

    owners = check_users(users_of(ready.train), stated=users)
    count = int(owners.max()) + 1
    order = draw_order(count, seed=seed)
    train, val, test = split.counts(count)
    shares = (order[:train], order[train : train + val], order[train + val :][:test])
    parts = [numpy.flatnonzero(numpy.isin(owners, share)) for share in shares]
    kept = take(ready.train, parts[0])
    return Splits(
        train=with_users(kept, owners[parts[0]]),
        val=take(ready.train, parts[1]) if val else None,
        test=take(ready.train, parts[2]) if test and ready.test is None else ready.test,
    )


def draw_order(records: int, *, seed: int) -> numpy.ndarray:  # -> [records] of int64
    """Give a permutation by the seed alone: the raw bits of PCG64 never change between versions, so a split doesn't either."""
    import numpy

    return numpy.argsort(numpy.random.PCG64(seed % 2**64).random_raw(records), kind="stable")


def valid_part(dataset: Dataset[Any] | None) -> Dataset[Any] | None:
    """Return a dataset without the records that it marks as invalid."""
    import numpy

    from dppipe.data.reading.validity import valid_of

    valid = valid_of(dataset) if dataset is not None else None
    return dataset if dataset is None or valid is None else take(dataset, numpy.flatnonzero(valid))
