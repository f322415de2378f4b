"""Predictions of a finished run for new records, from their raw form to classes or numbers.

Nothing here depends on the training records beside the run's own releases, so predictions cost no
privacy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import torch

from dppipe.errors import UsageError
from dppipe.learners.inputs.model_inputs import released_transforms
from dppipe.pipeline.load import load_network, spec_of
from dppipe.runs.directory import RunDirectory

if TYPE_CHECKING:
    import pyarrow
    from torch import Tensor, nn

    from dppipe.data.base import Data
    from dppipe.data.reading.new_inputs import NewInputs
    from dppipe.learners.inputs.stages import InputTransform

_AT_ONCE = 1024


@dataclass(frozen=True)
class Predictor:
    """A run's model with all that lies between a raw record and its prediction.

    Example:
        >>> from dppipe.pipeline.prediction.predictor import Predictor
        >>> predictor = Predictor.open("runs/first")
        >>> predictor.labels[:3]
        ('0', '1', '2')
    """

    network: nn.Module
    data: Data
    transforms: tuple[InputTransform, ...]

    @classmethod
    def open(cls, run_dir: Path | str, *, plugins: Path | None = None) -> Predictor:
        """Read a finished run."""
        run = RunDirectory.open(Path(run_dir))
        spec = spec_of(run, plugins=plugins)
        if spec.trained_model is None:
            raise UsageError(
                f"learner: expected one with a model, got {spec.learner.kind!r}, which makes no "
                "predictions."
            )
        transforms = tuple(released_transforms(spec.data, run))
        return cls(load_network(run, spec), spec.data, transforms)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; none of a regression."""
        return self.data.class_labels

    def outputs(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, outputs]
        """Return the network's outputs for inputs as the data kind loads them."""
        for transform in self.transforms:
            inputs = transform.transformed(inputs)
        found = []
        with torch.inference_mode():
            for start in range(0, len(inputs), _AT_ONCE):
                found.append(self.network(inputs[start : start + _AT_ONCE]))
        joined = torch.cat(found) if found else torch.zeros(0, self.data.outputs)
        return joined if self.data.task == "tagging" else joined.reshape(len(inputs), -1)

    def tables(self, path: Path) -> Iterator[pyarrow.Table]:
        """Yield the predictions of a file's records, some at a time, in the order of the file."""
        first = 1
        for new in self.data.new_inputs(path):
            outputs = self.outputs(new.inputs)
            if self.data.task == "tagging":
                yield tagged(outputs, new, self.labels, first=first)
            else:
                yield self._table(outputs, new.valid, first=first)
            first += len(new.inputs)
        if first == 1:
            raise UsageError(f"{path}: expected records, got none. Is it the right file?")

    def _table(self, outputs: Tensor, valid: Any, *, first: int) -> pyarrow.Table:
        """Return the rows' numbers, predictions and probabilities; null where a row is unusable."""
        import pyarrow

        columns: dict[str, Any] = {"row": numpy.arange(first, first + len(outputs))}
        if self.labels:
            shares = class_probabilities(outputs, task=self.data.task).double().numpy()
            chosen = numpy.array(self.labels, dtype=object)[shares.argmax(axis=1)]
            columns["prediction"] = pyarrow.array(chosen, pyarrow.string(), mask=~valid)
            for label, share in zip(self.labels, shares.T, strict=True):
                columns[f"probability_{label}"] = pyarrow.array(share, mask=~valid)
            return pyarrow.table(columns)
        numbers = self.data.in_units_of_the_target(outputs.double().numpy())
        for place, column in enumerate(numbers.T):
            name = "prediction" if numbers.shape[1] == 1 else f"prediction_{place}"
            columns[name] = pyarrow.array(column, mask=~valid)
        return pyarrow.table(columns)


def tagged(
    outputs: Tensor, new: NewInputs, labels: Sequence[str], *, first: int
) -> pyarrow.Table:  # [n, tokens, classes]
    """Return the class of each token of a record, separated by spaces."""
    import pyarrow

    chosen = outputs.argmax(dim=2)
    texts = []
    for classes, ids, valid in zip(chosen, new.inputs, new.valid, strict=True):
        names = [labels[int(number)] for number in classes[ids != 0]]
        texts.append(" ".join(names) if valid else None)
    rows = numpy.arange(first, first + len(outputs))
    return pyarrow.table({"row": rows, "prediction": pyarrow.array(texts, pyarrow.string())})


def class_probabilities(outputs: Tensor, *, task: str) -> Tensor:  # [n, outputs] -> [n, classes]
    """Return the probability of each class."""
    if task == "binary":
        second = torch.sigmoid(outputs[:, :1])
        return torch.cat([1 - second, second], dim=1)
    return torch.softmax(outputs, dim=1)
