"""Made-up records that can be learned: for trials, and for tests that need no real data."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self, cast

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.base import Data, Task
from dppipe.data.reading.normalize import Normalize
from dppipe.data.reading.users import with_users

if TYPE_CHECKING:
    from torch.utils.data import TensorDataset


def _task_by_classes(options: dict[str, int]) -> Task:
    return "multiclass" if options.get("classes", 2) > 2 else "binary"


class Synthetic(Data, kind="synthetic"):
    """Standard normal features, and a linear rule that decides the class or number to predict."""

    checks_records: ClassVar[bool] = True

    size: int = Field(1000, gt=0, description="The number of records.")
    features: int = Field(20, gt=0, description="Numbers in one input.")
    classes: int = Field(
        2, ge=2, description="Classes of a task that has them; two make a binary task."
    )
    task: Task = Field(
        default_factory=_task_by_classes,
        description="What is predicted; by `classes` unless stated.",
    )
    noise: float = Field(
        0.1,
        ge=0,
        description="Standard deviation of what the rule can't explain; the rule's own is 1.",
    )
    normalize: Normalize = Field(
        None, description="Constants or private statistics: an input becomes (input - mean) / std."
    )
    data_seed: int = Field(
        0, ge=0, description="The seed of the records; the spec's own seed doesn't change them."
    )

    @model_validator(mode="after")
    def _classes_fit_task(self) -> Self:
        if self.task == "binary" and self.classes != 2:
            raise ValueError(
                f"expected 2 classes of a binary task, got {self.classes}. Set task: multiclass."
            )
        if self.users is not None and self.users > self.size:
            raise ValueError(
                f"expected no more users than the {self.size} records, got {self.users}. Lower it."
            )
        return self

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.features,)

    @property
    def outputs(self) -> int:
        return self.classes if self.task == "multiclass" else 1

    def count(self) -> int:
        return self.known_count(self.size)

    def load(self) -> TensorDataset:
        import torch
        from torch.utils.data import TensorDataset

        generator = torch.Generator().manual_seed(self.data_seed)
        inputs = torch.randn(self.size, self.features, generator=generator)
        rule = torch.randn(self.features, self.outputs, generator=generator)
        scores = inputs @ (rule / rule.norm(dim=0))
        scores += self.noise * torch.randn(scores.shape, generator=generator)
        if self.normalize is not None:
            self.normalize.apply(inputs.numpy())
        if self.task == "multiclass":
            made = TensorDataset(inputs, scores.argmax(1))
        elif self.task == "binary":
            made = TensorDataset(inputs, (scores[:, 0] > 0).float())
        else:
            made = TensorDataset(inputs, scores)
        if self.users is None:
            return made
        # Each user has one record; the others are shared out at random, so users differ in number.
        others = torch.randint(self.users, (self.size - self.users,), generator=generator)
        users = torch.cat([torch.arange(self.users), others]).numpy()
        return cast("TensorDataset", with_users(made, users))
