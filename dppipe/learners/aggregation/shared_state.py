"""Networks that can't be trained block by block: those that carry something from one to the next.

All is tried on made-up records, before anything is charged. What is carried over would make one
record move the estimates of all later blocks. A buffer that training changes isn't released, so a
network that predicts by one, such as batch normalisation, would predict by its first value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.errors import RECORD_ERRORS, DppipeError, PrivacyRefusal, UsageError
from dppipe.learners.aggregation.network_inner import NetworkEstimator, trained_parameters
from dppipe.learners.blocks.reading import Block
from dppipe.learners.linear.last_layer import made_up_inputs

if TYPE_CHECKING:
    from dppipe.privacy.release import PublicFacts


def refuse_shared_state(estimator: NetworkEstimator) -> None:
    """Refuse a network that has nothing to train, whose buffers change, or that keeps a state.

    Guarantee: a network that is let through returned the same weights for the same block before and
    after it was trained on another one.
    """
    if not trained_parameters(estimator.network):
        raise UsageError(
            "model.trainable: expected parameters to train, got none. Name some, or leave it out."
        )
    first, second = _made_up_blocks(estimator.facts)
    try:
        weights = estimator.estimate(first)
        _refuse_buffers(estimator, first)
        estimator.estimate(second)
        again = estimator.estimate(first)
    except DppipeError:
        raise
    except RECORD_ERRORS as error:
        raise UsageError(
            "model: expected a network that can be trained on made-up records, got "
            f"{type(error).__name__}: {error}. Fix the network."
        ) from error
    if not torch.equal(torch.nan_to_num(weights), torch.nan_to_num(again)):
        raise PrivacyRefusal(
            "model: expected a network that keeps nothing between blocks, got other weights for "
            "the same made-up block after another one. One record would move the estimates of "
            "several blocks: keep no state outside of parameters."
        )


def _refuse_buffers(estimator: NetworkEstimator, block: Block) -> None:
    before = _buffers(estimator)
    for name, after in estimator.train(block).named_buffers():
        if name not in before or not torch.equal(before[name], after):
            raise PrivacyRefusal(
                f"model: expected buffers that training leaves as they are, got {name!r}, which "
                "it changes. Statistics of batches aren't released: use GroupNorm or LayerNorm."
            )


def _buffers(estimator: NetworkEstimator) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in estimator.network.named_buffers()}


def _made_up_blocks(facts: PublicFacts) -> tuple[Block, Block]:
    inputs = made_up_inputs(facts).to(torch.float64)
    count = len(inputs)
    if facts.task == "regression":
        targets = torch.arange(count * facts.outputs).to(torch.float64).reshape(count, -1)
    else:
        targets = torch.arange(count) % (2 if facts.task == "binary" else facts.outputs)
    return Block(0, inputs, targets), Block(1, inputs.flip(0) * 3 + 1, targets)
