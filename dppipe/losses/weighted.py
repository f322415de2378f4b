"""Losses of classes, in which a rare class can count more: by public constants."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.losses.base import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.data.reading.tasks import Task


class ClassLoss(Loss):
    """A loss of classes.

    Guarantee: the weights are the user's constants. They are never computed from records.
    """

    tasks: ClassVar[tuple[str, ...]] = ("multiclass", "binary")

    class_weights: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        None,
        min_length=2,
        description="A public constant for each class, in the order of their numbers, that "
        "multiplies the loss of its records.",
    )
    priors: tuple[Annotated[float, Field(gt=0, lt=1)], ...] | None = Field(
        None,
        min_length=2,
        description="The publicly known share of each class; each class then counts as if all had "
        "the same share. Don't compute it from the records.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.class_weights is not None and self.priors is not None:
            raise ValueError("expected class_weights or priors, got both. State one of them.")
        if self.priors is not None and not math.isclose(sum(self.priors), 1, abs_tol=1e-3):
            raise ValueError(
                f"expected priors that add up to 1, got {sum(self.priors):g}. Correct them."
            )
        return self

    @property
    def weights(self) -> tuple[float, ...] | None:
        """What each class's losses are multiplied by; None where all count the same.

        Those of priors have the mean 1 over records of these shares.
        """
        if self.priors is not None:
            return tuple(1 / (len(self.priors) * share) for share in self.priors)
        return self.class_weights

    @property
    def assumed(self) -> str | None:
        """What the options take as publicly known about the records, for a statement."""
        name = "class_weights" if self.priors is None else "priors"
        stated = self.class_weights or self.priors
        if stated is None:
            return None
        return f"train.loss.{name}: {', '.join(f'{number:g}' for number in stated)}"

    def problems(self, *, task: Task, outputs: int) -> Iterator[tuple[str, str]]:
        """Yield what doesn't fit the data: another task, or another number of classes."""
        yield from super().problems(task=task, outputs=outputs)
        classes = 2 if task == "binary" else outputs
        for option in ("class_weights", "priors"):
            stated = getattr(self, option)
            if task in self.tasks and stated is not None and len(stated) != classes:
                yield (
                    option,
                    f"expected {classes} numbers, one for each class, got {len(stated)}. "
                    "List them in the order of the classes.",
                )

    def weighted(self, losses: Tensor, targets: Tensor) -> Tensor:  # [b], [b] -> [b]
        """Return losses times the weights of their classes."""
        weights = self.weights
        if weights is None:
            return losses
        return losses * losses.new_tensor(weights)[targets.flatten().long()]
