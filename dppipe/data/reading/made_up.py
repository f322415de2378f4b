"""Made-up examples of the form that a dataset's records have; no record is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.data.reading.tasks import NO_TAG

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from dppipe.data.reading.tasks import Described
    from dppipe.input_layout import InputLayout

SEED = 2**31 - 1
"""An unlikely seed of records: made-up examples shouldn't be records of a synthetic dataset."""


def made_up_examples(data: Described, layout: InputLayout, *, count: int) -> tuple[Tensor, Tensor]:
    """Return inputs `[count, ...]` of this layout, and targets of the data's task."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    inputs = _inputs(layout, count, generator)
    if data.task == "tagging":
        tags = torch.randint(data.outputs, inputs.shape, generator=generator)
        return inputs, tags.masked_fill(inputs == 0, NO_TAG)
    if data.task == "multiclass":
        return inputs, torch.arange(count) % data.outputs
    if data.task == "binary":
        return inputs, (torch.arange(count) % 2).float()
    return inputs, torch.randn(count, data.outputs, generator=generator)


def _inputs(layout: InputLayout, count: int, generator: Generator) -> Tensor:
    """Return normal numbers, with codes and token ids below their public numbers."""
    import torch

    if layout.vocabulary is not None:
        ids = torch.randint(1, layout.vocabulary, (count, *layout.shape), generator=generator)
        for row, padding in enumerate(torch.arange(count) % max(1, layout.shape[0] // 2)):
            ids[row, layout.shape[0] - int(padding) :] = 0  # texts differ in length
        return ids
    inputs = torch.randn(count, *layout.shape, generator=generator)
    for place, categories in layout.category_counts.items():
        codes = torch.randint(categories + 1, (count,), generator=generator)
        inputs[:, place] = codes.to(inputs.dtype)
    return inputs
