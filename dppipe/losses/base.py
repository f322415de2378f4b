"""What a loss is: one number for each record, from its own prediction and its own target.

The gradient of each record's loss is clipped afterwards. So a loss can be any function of one
record: its size has no part in the guarantee. Whether rows see each other is checked before the
first charge, as for models.
Read next: `huber.py`, then `weighted.py` and `cross_entropy.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Component

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.data.reading.tasks import Task


class Loss(Component):
    """What training lowers: one number for each record.

    Guarantee: an option is a public constant, and nothing is computed from other records.

    Example:
        >>> import torch
        >>> from dppipe.losses import Huber
        >>> Huber(delta=1.0).per_record(torch.zeros(2, 1), torch.ones(2, 1), task="regression")
        tensor([0.5000, 0.5000])
    """

    tasks: ClassVar[tuple[str, ...]] = ("multiclass", "binary", "regression")
    """The tasks that it is for."""

    def problems(self, *, task: Task, outputs: int) -> Iterator[tuple[str, str]]:
        """Yield what doesn't fit the data: an option, or "" for all, and a message."""
        if task not in self.tasks:
            tasks = " or ".join(self.tasks)
            yield "", f"expected a loss for a {task} task, got {self.kind!r}, which is for {tasks}."

    @property
    def assumed(self) -> str | None:
        """What the options take as publicly known about the records, for a statement."""
        return None

    # predictions [b, outputs], targets [b] or [b, outputs] -> [b]
    def per_record(self, predictions: Tensor, targets: Tensor, *, task: Task) -> Tensor:
        """Return each record's own loss."""
        raise self.unwritten("per_record(predictions, targets, task)")
