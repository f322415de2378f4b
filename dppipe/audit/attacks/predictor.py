"""A trained network with all that a run does to its inputs: what an outsider may ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dppipe.errors import UsageError
from dppipe.learners.inputs.model_inputs import released_transforms
from dppipe.losses.by_task import per_record_loss
from dppipe.pipeline.load import load_network
from dppipe.pipeline.scoring import SCORING_BATCH_SIZE

if TYPE_CHECKING:
    from dppipe.data.base import Task
    from dppipe.learners.inputs.stages import InputTransform
    from dppipe.runs.directory import RunDirectory
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class Predictor:
    """Predicts from inputs as the data kind loads them, as the run's own evaluation does."""

    network: nn.Module
    transforms: Sequence[InputTransform]
    task: Task

    def __call__(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, outputs]
        """Return the network's outputs; gradients with respect to the inputs go through."""
        for transform in self.transforms:
            inputs = transform.transformed(inputs)
        outputs: Tensor = self.network(inputs)
        return outputs

    def outputs(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, outputs]
        """Return the network's outputs in batches of a bounded size, without gradients."""
        with torch.inference_mode():
            batches = torch.split(inputs, SCORING_BATCH_SIZE)
            parts = [self(batch) for batch in batches]
        return torch.cat(parts).clone()

    def log_probabilities(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, classes], float64
        """Return the logarithm of each class's probability; a binary task has two classes."""
        return log_probabilities(self.outputs(inputs), task=self.task)

    def losses(self, inputs: Tensor, targets: Tensor) -> Tensor:  # -> [n], float64
        """Return each record's own loss, as the task has it."""
        outputs = self.outputs(inputs).double()
        return per_record_loss(outputs, _as_trained(targets, outputs, self.task), task=self.task)

    @property
    def classifies(self) -> bool:
        """Whether it predicts classes, not numbers."""
        return self.task != "regression"


def log_probabilities(outputs: Tensor, *, task: Task) -> Tensor:  # -> [n, classes]
    """Return the logarithm of each class's probability, in float64, from a network's outputs.

    It is never the logarithm of a rounded probability: one near 1 keeps its distance from 1.
    """
    logits = outputs.double()
    if task == "multiclass":
        return F.log_softmax(logits, dim=1)
    if task == "binary":
        one = logits.flatten()
        return torch.stack([F.logsigmoid(-one), F.logsigmoid(one)], dim=1)
    raise UsageError(
        "attack: expected a model that predicts classes, got a regression, which has no "
        "probabilities. Choose a method that needs only losses."
    )


def class_numbers(targets: Tensor) -> Tensor:  # [n, ...] -> [n], int64
    """Return the class number of each target, of a multiclass or a binary task."""
    return targets.reshape(len(targets)).long()


def load_predictor(run: RunDirectory, spec: Spec) -> Predictor:
    """Return the predictor of a finished run; one that makes no predictions is refused."""
    if spec.trained_model is None:
        raise UsageError(
            f"{run.path}: learner: expected one with a model that predicts, got "
            f"{spec.learner.kind!r}, which makes no predictions. There is nothing to attack."
        )
    network = load_network(run, spec)
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return Predictor(network, tuple(released_transforms(spec.data, run)), spec.data.task)


def _as_trained(targets: Tensor, outputs: Tensor, task: Task) -> Tensor:
    return targets.long() if task == "multiclass" else targets.to(outputs.dtype)
