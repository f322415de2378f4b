"""What is predicted: the task of a dataset, and what is public about its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

Task = Literal["multiclass", "binary", "regression", "tagging"]
"""Tagging predicts a class for each token of an input; a place without one has `NO_TAG`."""
NO_TAG = -1


class Described(Protocol):
    """What every record of some data must agree with, and what becomes of one that doesn't."""

    @property
    def task(self) -> Task:
        """What is predicted."""

    @property
    def input_shape(self) -> Sequence[int]:
        """The shape of one input, without the batch dimension."""

    @property
    def model_input_shape(self) -> tuple[int, ...]:
        """The shape of one input as the model sees it."""

    @property
    def outputs(self) -> int:
        """The number of model outputs."""

    @property
    def checks_records(self) -> bool:
        """Whether loading checks each record."""

    @property
    def drops_bad_records(self) -> bool:
        """Whether a record that can't be used is left out, rather than refused."""
