"""The private loader: each of its items is an invitation to draw one logical batch, not the batch itself.

Nothing is drawn until the private step asks, after the budget was asked. So no prefetching loop can touch a record too
early, and an ordinary `training_step` that gets such an item instead of tensors can't train on it without its callback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.training.ranks import Ranks
from dppipe.training.slots import Indices, Slots, slot_pieces

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import Dataset

    from dppipe.planning.plan import Plan
    from dppipe.randomness.keystream import ByteSource
    from dppipe.sampling.base import Sampler
    from dppipe.training.user_index import UserIndex


class LogicalBatch:
    """An invitation to draw the records of one logical step."""

    def __init__(self, loader: PrivateLoader) -> None:
        self.loader = loader

    def draw(self, step: int, slots: Slots | None = None) -> Iterator[tuple[Any, Indices | None]]:
        """Draw a step's records and give them in physical pieces; an empty draw gives no piece.

        With `slots`, or where users are drawn, each piece comes with its records' slots, and holds each of its slots whole.
        """
        loader = self.loader
        drawn = loader.draw(step)
        if loader.users is not None:
            drawn, slots = loader.users.records(drawn), loader.users.slots
        if slots is not None:
            for indices, slot in slot_pieces(drawn, slots, size=loader.physical_batch_size, ranks=loader.ranks):
                yield loader.gather(indices), slot
            return
        indices = loader.ranks.share(drawn)
        for start in range(0, len(indices), loader.physical_batch_size):
            yield loader.gather(indices[start : start + loader.physical_batch_size]), None

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
        users: UserIndex | None = None,
    ) -> None:
        self.dataset = dataset
        self.sampler = sampler
        self.records = len(dataset)  # type: ignore[arg-type]
        self.users = users
        self.units = users.count if users is not None else self.records
        """How many there are to draw from: records, or users."""
        self.physical_batch_size = self.records
        self.collate = collate
        self.steps_per_epoch = 0
        self.ranks = Ranks()
        self._armed: tuple[Plan, ByteSource] | None = None
        self._epoch: dict[int, numpy.ndarray] = {}
        self._synthetic = synthetic

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
            return self.sampler.draw(self.units, rate=plan.batch(step).sample_rate, generator=stream)
        place = plan.place_in_epoch(step)
        if place == 0 or not self._epoch:
            self._epoch = dict(enumerate(self.sampler.draw_epoch(self.units, rate=plan.sample_rate, generator=stream)))
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
        import numpy
        import torch
        from torch.utils._pytree import tree_map

        if self._synthetic is not None:
            return self._synthetic(count)

        def made_up(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            shape = (count, *leaf.shape[1:])
            return torch.randn(shape, dtype=leaf.dtype) if leaf.is_floating_point() else torch.zeros(shape, dtype=leaf.dtype)

        return tree_map(made_up, self.gather(numpy.zeros(1, dtype=numpy.int64)))

    def gather(self, indices: numpy.ndarray) -> Any:
        """Give the records at these indices as one batch: by one index where they are tensors, else collated one by one."""
        import torch
        from torch.utils.data import TensorDataset, default_collate

        if isinstance(self.dataset, TensorDataset) and self.collate is None:
            chosen = torch.from_numpy(indices)
            return [tensor[chosen] for tensor in self.dataset.tensors]
        return (self.collate or default_collate)([self.dataset[int(index)] for index in indices])
