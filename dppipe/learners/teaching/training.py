"""Ordinary training of a network, without noise: of a teacher on its block, or of the student.

A teacher is trained inside the gate's computation. The student sees public inputs and labels that
are released already.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dppipe.data.reading.each_record import still_generators

if TYPE_CHECKING:
    from dppipe.learners.teaching.options import Trained

_SCORED_AT_ONCE = 1024


def train_network(
    network: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    options: Trained,
    *,
    regularization: float,
    task: str,
    seed: int,
) -> None:
    """Train a network in place; without any input it stays as it is.

    Guarantee: the result is a function of the network, the inputs, the labels and the seed. The
    global generators are put back as they were.

    Args:
        network: What is trained: its parameters that aren't frozen.
        inputs: `[m, *input_shape]`.
        labels: `[m]` class numbers.
        options: How it is trained.
        regularization: The weight of the squared weights, where the options state none.
        task: `multiclass` or `binary`.
        seed: A public seed of the order of batches, and of dropout.
    """
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if not len(inputs) or not trained:
        return
    with still_generators() as restart:
        restart()
        torch.manual_seed(seed)
        if options.optimizer is None:
            strength = options.regularization
            strength = regularization if strength is None else strength
            _minimise(network, inputs, labels, options, strength=strength, task=task)
        else:
            _descend(network, inputs.float(), labels, options, task=task)


def scores_at(network: nn.Module, inputs: Tensor, *, task: str) -> Tensor:  # -> [n, classes]
    """Return a network's score of each class; a binary one has a score of 0 for class 0."""
    found: list[Tensor] = []
    with torch.no_grad():
        for part in torch.split(inputs.float(), _SCORED_AT_ONCE):
            found.append(network.eval()(part).to(torch.float64).reshape(len(part), -1))
    scores = torch.cat(found)
    return torch.cat([torch.zeros_like(scores), scores], 1) if task == "binary" else scores


def _minimise(
    network: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    options: Trained,
    *,
    strength: float,
    task: str,
) -> None:
    """Minimise the sum of losses and squared weights by L-BFGS, in float64."""
    twin = copy.deepcopy(network).double().train()
    trained = [parameter for parameter in twin.parameters() if parameter.requires_grad]
    weights = [parameter for parameter in trained if parameter.dim() > 1]  # biases are free
    solver = torch.optim.LBFGS(
        trained, max_iter=options.train.epochs, line_search_fn="strong_wolfe"
    )
    rows = inputs.to(torch.float64)

    def objective() -> Tensor:
        solver.zero_grad()
        value = _loss(twin(rows), labels, task=task).sum()
        for parameter in weights:
            value = value + strength / 2 * parameter.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    solver.step(objective)  # type: ignore[no-untyped-call]
    network.load_state_dict(twin.state_dict())


def _descend(
    network: nn.Module, inputs: Tensor, labels: Tensor, options: Trained, *, task: str
) -> None:
    """Train by the optimizer, an update for each batch."""
    if options.optimizer is None:
        return
    size = min(options.train.batch_size or len(inputs), len(inputs))
    batches = -(-len(inputs) // size)
    solver = options.optimizer.prepare([one for one in network.parameters() if one.requires_grad])
    schedule = options.optimizer.schedule.build(solver, steps=options.train.epochs * batches)
    network.train()
    for _ in range(options.train.epochs):
        for batch in torch.split(torch.randperm(len(inputs)), size):
            solver.zero_grad()
            loss = _loss(network(inputs[batch]), labels[batch], task=task).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            solver.step()
            schedule.step()


def _loss(outputs: Tensor, labels: Tensor, *, task: str) -> Tensor:  # -> [m]
    if task == "binary":
        wanted = labels.to(outputs.dtype)
        return F.binary_cross_entropy_with_logits(outputs.flatten(), wanted, reduction="none")
    return F.cross_entropy(outputs, labels, reduction="none")
