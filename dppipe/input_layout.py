"""What is public about a model's input: its shape, and which of its numbers are codes.

Data kinds state it (`Data.input_layout`), and models are built from it (`Model.build_for`). Nothing
here reads a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class InputLayout:
    """What is known of one input before a record is read.

    Example:
        >>> from dppipe.input_layout import InputLayout
        >>> InputLayout((64,), vocabulary=1000).describe()
        'token ids of shape (64,)'
    """

    shape: tuple[int, ...]
    """The shape of one input as the model sees it, without the batch dimension."""
    category_counts: Mapping[int, int] = field(default_factory=dict)
    """The number of categories of each input that holds codes, by the input's place.

    0 stands for none, so a code is at most that number.
    """
    vocabulary: int | None = None
    """The number of token ids, where an input is integers below it; id 0 is padding."""

    per_token: bool = False
    """Whether the model is to predict for each token, rather than for the whole input."""

    def describe(self) -> str:
        """Return what inputs are, for a message."""
        if self.vocabulary is not None:
            return f"token ids of shape {self.shape}"
        if self.category_counts:
            return f"numbers of shape {self.shape}, {len(self.category_counts)} of them codes"
        return f"numbers of shape {self.shape}"
