"""One teacher: trained on its block, and asked for scores at public inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.learners.teaching.options import TEACHER_REGULARIZATION
from dppipe.learners.teaching.training import scores_at, train_network
from dppipe.learners.teaching.vote_bounds import classes_of

if TYPE_CHECKING:
    from dppipe.learners.blocks.reading import Block
    from dppipe.learners.teaching.options import Teacher
    from dppipe.privacy.release import PublicFacts


def teacher_scores(
    block: Block, inputs: Tensor, teacher: Teacher, facts: PublicFacts
) -> Tensor:  # [n, *input_shape] -> [n, classes]
    """Train the teacher of a block, and return its score of each class at each input."""
    if teacher.model is None:
        strength = teacher.regularization
        return ridge_scores(
            block,
            inputs,
            classes=classes_of(facts),
            regularization=TEACHER_REGULARIZATION if strength is None else strength,
        )
    seed = facts.seed + block.number
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # its own weights, whatever teachers before it have drawn
        network = teacher.model.build_for(facts.input_layout, facts.outputs)
    train_network(
        network,
        block.inputs,
        block.targets,
        teacher,
        regularization=TEACHER_REGULARIZATION,
        task=facts.task,
        seed=seed,
    )
    return scores_at(network, inputs, task=facts.task)


def ridge_scores(
    block: Block, inputs: Tensor, *, classes: int, regularization: float
) -> Tensor:  # [n, ...] -> [n, classes]
    """Return scores of least squares on one number for each class, in closed form.

    The regularisation is relative to the mean squared length of the block's inputs, so that it
    doesn't depend on their unit. The bias is a constant coordinate of that length. It solves for a
    number for each record, or for each coordinate, whichever are fewer.
    """
    rows = block.inputs.flatten(1)  # [m, d]
    length = rows.square().sum(1).mean().sqrt()
    rows = _with_constant(rows, length)
    targets = torch.nn.functional.one_hot(block.targets, classes).to(torch.float64) - 1 / classes
    strength = regularization * length.square()
    if len(rows) <= rows.shape[1]:
        square = rows @ rows.T
        square.diagonal().add_(strength)
        weights = rows.T @ torch.linalg.solve(square, targets)
    else:
        square = rows.T @ rows
        square.diagonal().add_(strength)
        weights = torch.linalg.solve(square, rows.T @ targets)
    scores: Tensor = _with_constant(inputs.to(torch.float64).flatten(1), length) @ weights
    return scores


def _with_constant(rows: Tensor, constant: Tensor) -> Tensor:  # [m, d] -> [m, d + 1]
    return torch.cat([rows, constant.expand(len(rows), 1)], 1)
