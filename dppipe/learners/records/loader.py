"""The private loader: each of its items is a logical batch that isn't drawn yet.

Nothing is drawn until the private step asks, after the budget was asked. So no prefetching loop can
touch a record too early, and an ordinary `training_step` that gets such an item instead of tensors
can't train on it without its callback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.canary_draws import sampler_with_canaries
from dppipe.learners.records.reading import PhysicalBatch, make_reader
from dppipe.learners.records.synthetic_batches import SyntheticBatches
from dppipe.learners.records.unit_index import ExampleIndex, UnitIndex
from dppipe.learners.records.whole_units import UnitOf, split_by_unit

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.planning.step_plan import StepPlan
    from dppipe.randomness.keystream import ByteSource
    from dppipe.sampling.base import Sampler


class LogicalBatch:
    """The batch of one logical step; its records are drawn when the private step asks."""

    def __init__(self, loader: PrivateLoader) -> None:
        self.loader = loader

    def draw(self, step: int, unit_of: UnitOf | None = None) -> Iterator[PhysicalBatch]:
        """Draw a step's records and yield them in physical batches; an empty draw yields none.

        With `unit_of`, or where a unit may have several records, each row comes with its unit, and
        no unit is split between physical batches.
        """
        loader = self.loader
        drawn = loader.index.records(loader.draw_units(step))
        unit_of = loader.index.unit_of or unit_of
        size = loader.physical_batch_size
        if unit_of is not None:
            for indices, units in split_by_unit(drawn, unit_of, size=size, ranks=loader.ranks):
                yield loader.reader.read(indices, units)
            return
        indices = loader.ranks.share(drawn)
        for start in range(0, len(indices), size):
            yield loader.reader.read(indices[start : start + size])

    def to(self, *args: Any, **kwargs: Any) -> LogicalBatch:
        """Return itself: the private step moves one physical batch at a time to the device."""
        return self

    def _refuse(self, *args: Any) -> NoReturn:
        raise PrivacyRefusal(
            "this batch comes from a private loader: expected its DPCallback among the Trainer's "
            "callbacks. Without it training would not be private."
        )

    __getitem__ = __iter__ = __len__ = _refuse


class PrivateLoader:
    """The only training loader that a DPCallback accepts.

    Guarantee: it draws only through its sampler, from a secret stream of its own, and only while
    its callback runs.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        sampler: Sampler,
        collate: Callable[[list[Any]], Any] | None = None,
        synthetic: Callable[[int], Any] | None = None,
        ranges: Any = None,
        index: UnitIndex | None = None,
    ) -> None:
        self.dataset = dataset
        self.sampler = sampler
        self.records = len(dataset)  # type: ignore[arg-type]
        self.index: UnitIndex = index or ExampleIndex(self.records)
        """The units that the sampler draws from, and their records."""
        self.units = self.index.count
        self.physical_batch_size = self.records
        self.steps_per_epoch = 0
        self.ranks = Ranks()
        self.reader = make_reader(dataset, collate=collate, ranges=ranges)
        self._made_up = SyntheticBatches(self.reader, records=self.records, own=synthetic)
        self.may_draw: Callable[[], bool] = lambda: True
        """Whether records may be drawn now: in a private run, only while its gate computes."""
        self.canaries = 0
        """How many canaries of an audit are drawn along; their numbers follow those of units."""
        self.drawn_canaries = numpy.zeros(0, numpy.int64)
        """The canaries that were drawn with the last batch, numbered from 0."""
        self._armed: tuple[StepPlan, ByteSource] | None = None
        self._epoch: dict[int, numpy.ndarray] = {}

    @property
    def in_memory(self) -> bool:
        """Whether records are rows of tensors, so that no user code runs to read them."""
        return self.reader.in_memory

    def arm(self, plan: StepPlan, *, stream: ByteSource, ranks: Ranks) -> None:
        """Let the loader draw from a secret stream at the plan's rates; its callback calls this."""
        if plan.records not in (None, self.units):
            raise UsageError(
                f"data: expected {plan.records} training records, which the plan is made for, got "
                f"{self.units}. State the number that there is: sample rate and delta depend on it."
            )
        self.steps_per_epoch = min(plan.steps_per_epoch, plan.steps)
        self.ranks = ranks
        self._armed = (plan, stream)
        self._epoch = {}

    def plant(self, canaries: int) -> None:
        """Let the canaries of an audit be drawn along with the units, by the same sampler."""
        self.canaries = canaries
        self.sampler = sampler_with_canaries(self.sampler, units=self.units, canaries=canaries)

    def disarm(self) -> None:
        """Let the loader draw no more."""
        self._armed = None

    def draw_units(self, step: int) -> numpy.ndarray:
        """Draw a step's batch, note which canaries are in it, and return the real units."""
        drawn = self.draw(step)
        if not self.canaries:
            return drawn
        self.drawn_canaries = drawn[drawn >= self.units] - self.units
        return drawn[drawn < self.units]

    def draw(self, step: int) -> numpy.ndarray:
        """Draw the units of a step's batch, by itself or as a part of an epoch that is drawn whole.

        Guarantees:
        - Each batch of an epoch is returned once.
        - A drawn epoch is in memory only: a run that goes on after an interruption draws another
          one, and has paid for it.
        """
        plan, stream = self.require_callback()
        if not self.may_draw():
            raise PrivacyRefusal(
                "loader: expected records to be drawn inside the gate's computation, got a draw "
                "outside of it. Nothing was drawn."
            )
        if not plan.epochwise:
            rate = plan.batch(step).sample_rate
            return self.sampler.draw(self.units + self.canaries, rate=rate, generator=stream)
        place = plan.place_in_epoch(step)
        if place == 0 or not self._epoch:
            rate = plan.sample_rate
            everyone = self.units + self.canaries
            batches = self.sampler.draw_epoch(everyone, rate=rate, generator=stream)
            self._epoch = dict(enumerate(batches))
        if self.canaries and place not in self._epoch:
            return numpy.zeros(0, numpy.int64)  # an epoch with canaries may have a batch less
        return self._epoch.pop(place)

    def __len__(self) -> int:
        if not self.steps_per_epoch:
            self.require_callback()
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[LogicalBatch]:
        self.require_callback()
        return (LogicalBatch(self) for _ in range(self.steps_per_epoch))

    def require_callback(self) -> tuple[StepPlan, ByteSource]:
        """Return the plan and the stream that the callback has set; refuse if there is none."""
        if self._armed is None:
            raise PrivacyRefusal(
                "this loader is a DPCallback's: expected that callback among the Trainer's "
                "callbacks. Without it training would not be private."
            )
        return self._armed

    def synthetic(self, count: int) -> Any:
        """Return a batch of made-up examples; no value of a record goes into it."""
        return self._made_up.make(count)

    def like_a_record(self) -> Any:
        """Return a made-up row with the shapes and types of a record; None if there is none."""
        return self._made_up.like_a_record()


def refuse_foreign_batch(batch: Any, loader: PrivateLoader | None) -> None:
    """Refuse a training batch that the callback's own loader didn't make."""
    if not isinstance(batch, LogicalBatch) or batch.loader is not loader:
        raise PrivacyRefusal(
            "training_step: expected a batch of the DPCallback's own loader, got another. If a "
            "validation_step calls self.training_step, let both call a method that they share."
        )
