"""Reading the public inputs that a learner is given: they are nobody's to protect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from dppipe.budgets.fingerprints import data_contents
from dppipe.data.base import Splits
from dppipe.data.reading.validity import valid_of
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.inputs.model_inputs import released_transforms, transformed_part
from dppipe.spec.public_data import PLACE, placed_at_public

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.data.base import Data
    from dppipe.runs.directory import RunDirectory
    from dppipe.spec.spec import Spec

_NAME = ".".join(PLACE)


def read_public_inputs(spec: Spec) -> Tensor | None:  # -> [n, *input_shape] float32
    """Return the public inputs of a spec's learner; None where it takes none.

    Targets aren't read. Inputs that are copies of the run's files are refused.
    """
    public = spec.learner.public_data
    if public is None:
        return None
    _refuse_private_files(spec.data, public)
    with placed_at_public():
        dataset = _load(public)
    inputs = _inputs(dataset)
    valid = valid_of(dataset)
    if valid is not None:
        inputs = inputs[torch.from_numpy(valid)]
    if tuple(inputs.shape[1:]) != tuple(spec.data.input_shape):
        raise UsageError(
            f"{_NAME}: expected inputs of shape {list(spec.data.input_shape)}, got "
            f"{list(inputs.shape[1:])}. Bring both to one shape."
        )
    if not bool(inputs.isfinite().all()):
        raise UsageError(
            f"{_NAME}: expected finite inputs, got NaN or an infinity. Fix or drop them."
        )
    return inputs


def as_the_model_sees(
    inputs: Tensor | None, data: Data, run: RunDirectory
) -> Tensor | None:  # [n, *input_shape] -> [n, *model_input_shape]
    """Return public inputs as the run's own records are transformed, once that is released."""
    if inputs is None:
        return None
    part = transformed_part(TensorDataset(inputs), released_transforms(data, run))
    made: Tensor = part.tensors[0]
    return made


def _refuse_private_files(data: Data, public: Data) -> None:
    """Refuse public data of which a file has the bytes of a file with private records."""
    if set(data_contents(data)) & set(data_contents(public)):
        raise PrivacyRefusal(
            f"{_NAME}: expected other records than the run's own, which are private, got a copy of "
            "their file. Name inputs that need no protection."
        )


@runtime_checkable
class LoadsInputs(Protocol):
    """Data that can be read without its targets."""

    def load_inputs(self) -> Dataset[Any]:
        """Read all records for their inputs alone."""


def _load(public: Data) -> Dataset[Any]:
    """Read all public records, without their targets where the data kind can do that."""
    if isinstance(public, LoadsInputs):
        return public.load_inputs()
    loaded = public.load()
    return loaded.train if isinstance(loaded, Splits) else loaded


def _inputs(dataset: Dataset[Any]) -> Tensor:  # -> [n, ...]
    if isinstance(dataset, TensorDataset):
        return dataset.tensors[0].float()
    rows: list[Tensor] = []
    for index in range(len(dataset)):  # type: ignore[arg-type]
        item = dataset[index]
        one = item[0] if isinstance(item, (tuple, list)) else item
        rows.append(torch.as_tensor(one).float())
    try:
        return torch.stack(rows)
    except RuntimeError:
        raise UsageError(
            f"{_NAME}: expected inputs of one shape, got several, or none. Bring them to one shape."
        ) from None
