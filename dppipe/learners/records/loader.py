"""The private loader: each of its items is an invitation to draw one logical batch, not the batch itself.

Nothing is drawn until the private step asks, after the budget was asked. So no prefetching loop can touch a record too
early, and an ordinary `training_step` that gets such an item instead of tensors can't train on it without its callback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from dppipe.class_path import describe_failure
from dppipe.errors import RECORD_ERRORS, PrivacyRefusal, UsageError
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.made_up import made_up_examples, made_up_row
from dppipe.learners.records.slots import Slots, slot_pieces

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import Dataset

    from dppipe.learners.records.reading import PhysicalBatch, RecordReader
    from dppipe.learners.records.user_index import UserIndex
    from dppipe.planning.plan import Plan
    from dppipe.randomness.keystream import ByteSource
    from dppipe.sampling.base import Sampler

FIRST_RECORDS = 100
"""How many records are tried before the first charge, to find some that can be read."""
COMPARED = 9
"""Of so many that can be read, one with the most common shape stands for all records: a broken one can't."""


class LogicalBatch:
    """An invitation to draw the records of one logical step."""

    def __init__(self, loader: PrivateLoader) -> None:
        self.loader = loader

    def draw(self, step: int, slots: Slots | None = None) -> Iterator[PhysicalBatch]:
        """Draw a step's records and yield them in physical batches; an empty draw yields none.

        With `slots`, or where users are drawn, each row comes with its slot, and each physical
        batch holds each of its slots whole.
        """
        loader = self.loader
        drawn = loader.draw(step)
        if loader.users is not None:
            drawn, slots = loader.users.records(drawn), loader.users.slots
        size = loader.physical_batch_size
        if slots is not None:
            for indices, slot in slot_pieces(drawn, slots, size=size, ranks=loader.ranks):
                yield loader.reader.read(indices, slot)
            return
        indices = loader.ranks.share(drawn)
        for start in range(0, len(indices), size):
            yield loader.reader.read(indices[start : start + size])

    def to(self, *args: Any, **kwargs: Any) -> LogicalBatch:
        """Stay where it is: a Trainer moves batches to its device, the private step moves one piece at a time."""
        return self

    def _refuse(self, *args: Any) -> NoReturn:
        raise PrivacyRefusal(
            "this batch comes from a private loader: expected its DPCallback among the Trainer's callbacks. "
            "Without it training would not be private."
        )

    __getitem__ = __iter__ = __len__ = _refuse


class PrivateLoader:
    """The only training loader that a DPCallback accepts.

    Guarantee: it draws only through its sampler, from a secret stream of its own, and only while its callback runs.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        sampler: Sampler,
        collate: Callable[[list[Any]], Any] | None = None,
        synthetic: Callable[[int], Any] | None = None,
        ranges: Any = None,
        users: UserIndex | None = None,
    ) -> None:
        self.dataset = dataset
        self.sampler = sampler
        self.records = len(dataset)  # type: ignore[arg-type]
        self.users = users
        self.units = users.count if users is not None else self.records
        """How many there are to draw from: records, or users."""
        self.physical_batch_size = self.records
        self.steps_per_epoch = 0
        self.ranks = Ranks()
        self.reader = make_reader(dataset, collate=collate, ranges=ranges)
        self._armed: tuple[Plan, ByteSource] | None = None
        self._epoch: dict[int, numpy.ndarray] = {}
        self._synthetic = synthetic
        self._made_up: Any = None

    @property
    def in_memory(self) -> bool:
        """Whether records are rows of tensors, so that no user code runs to read them."""
        return self.reader.in_memory

    def arm(self, plan: Plan, *, stream: ByteSource, ranks: Ranks) -> None:
        """Let the loader draw from a secret stream, at the plan's rates; only its callback calls this."""
        if plan.records not in (None, self.units):
            raise UsageError(
                f"data: expected {plan.records} training records, which the plan is made for, got {self.units}. "
                "State the number that there is: sample rate and delta hang on it."
            )
        self.steps_per_epoch, self.ranks = min(plan.steps_per_epoch, plan.steps), ranks
        self._armed, self._epoch = (plan, stream), {}

    def disarm(self) -> None:
        """Let the loader draw no more."""
        self._armed = None

    def draw(self, step: int) -> numpy.ndarray:
        """Draw what is in a step's batch: by itself, or as its part of an epoch that is drawn whole.

        Guarantee: each batch of an epoch is handed out once. An epoch that was drawn is in memory only: a run that goes on after
        an interruption draws, and has paid for, another one.
        """
        plan, stream = self.require_callback()
        if not plan.epochwise:
            return self.sampler.draw(
                self.units, rate=plan.batch(step).sample_rate, generator=stream
            )
        place = plan.place_in_epoch(step)
        if place == 0 or not self._epoch:
            self._epoch = dict(
                enumerate(
                    self.sampler.draw_epoch(self.units, rate=plan.sample_rate, generator=stream)
                )
            )
        return self._epoch.pop(place)

    def __len__(self) -> int:
        if not self.steps_per_epoch:
            self.require_callback()
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[LogicalBatch]:
        self.require_callback()
        return (LogicalBatch(self) for _ in range(self.steps_per_epoch))

    def require_callback(self) -> tuple[Plan, ByteSource]:
        """Give the plan and the stream that the loader's callback has armed it with; refuse unless it is at work."""
        if self._armed is None:
            raise PrivacyRefusal(
                "this loader is a DPCallback's: expected that callback among the Trainer's callbacks. "
                "Without it training would not be private."
            )
        return self._armed

    def synthetic(self, count: int) -> Any:
        """Make up a batch of examples in the data's shapes and types; no value of a record goes into it."""
        if self._synthetic is not None:
            return self._synthetic(count)
        import torch
        from torch.utils._pytree import tree_map

        if self._made_up is None:
            self._made_up = self._make_up()
        return tree_map(
            lambda leaf: (
                leaf[torch.arange(count) % len(leaf)]
                if isinstance(leaf, torch.Tensor) and leaf.dim()
                else leaf
            ),
            self._made_up,
        )

    def like_a_record(self) -> Any:
        """Return a made-up row with the shapes and types of a record; None where there is no record.

        What code makes of it shows whether made-up examples are like the records at all: otherwise
        every record would be taken for a broken one.
        """
        if not self.records:
            return None  # a secret number of records may be none
        return made_up_row(self.reader.one(self._typical()), self.synthetic(1))

    def _make_up(self) -> Any:
        """Make up examples like the first record that can be read, and collate them like records."""
        from dppipe.engine.losses import batch_rows

        examples = made_up_examples(self.dataset[self._typical()], ranges=self.reader.ranges)
        try:
            batch = self.reader.stack_examples(examples)
            batch_rows(batch)
        except RECORD_ERRORS as error:
            raise UsageError(
                f"loader: expected examples that can be stacked row by row, got made-up ones that can't "
                f"({describe_failure(error)}). collate sees one example at a time and returns tensors "
                "with a first dimension of 1. Or give synthetic=, a function that makes up a batch of n."
            ) from error
        return batch

    def _typical(self) -> int:
        """Return a record with the most common shape among the first: its shapes and types are looked at."""
        kinds: dict[Any, list[int]] = {}
        first: BaseException | None = None
        for index in range(min(self.records, FIRST_RECORDS)):
            try:
                kinds.setdefault(self.reader.kind(index), []).append(index)
            except RECORD_ERRORS as error:
                first = first or error
            if sum(map(len, kinds.values())) == COMPARED:
                break
        if kinds:
            return max(kinds.values(), key=len)[0]
        what = "no record" if first is None else describe_failure(first)
        raise UsageError(
            f"loader: expected records that can be read and collated, got {what} for each of the first "
            f"{min(self.records, FIRST_RECORDS)}. This is about private records. Fix the data set or collate."
        )


def refuse_foreign_batch(batch: Any, loader: PrivateLoader | None) -> None:
    """Refuse a training batch that the callback's own loader didn't make."""
    if not isinstance(batch, LogicalBatch) or batch.loader is not loader:
        raise PrivacyRefusal(
            "training_step: expected a batch of the DPCallback's own loader, got another. If a "
            "validation_step calls self.training_step, let both call a method that they share."
        )


def make_reader(
    dataset: Dataset[Any], *, collate: Callable[[list[Any]], Any] | None, ranges: Any
) -> RecordReader:
    """Make the reader of a data set; what can be said of its records in memory is said once, here."""
    from torch.utils.data import TensorDataset

    from dppipe.data.reading.validity import valid_of
    from dppipe.learners.records.reading import RecordReader, tensors_in_range

    valid = valid_of(dataset)
    if isinstance(dataset, TensorDataset) and collate is None and ranges is not None:
        inside = tensors_in_range(dataset, ranges)
        valid = inside if valid is None else inside & valid
    return RecordReader(dataset, collate, ranges, valid)
