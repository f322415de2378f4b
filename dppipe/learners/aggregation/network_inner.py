"""Ordinary training of a network on one block, from the same first weights for every block.

Each block has a copy of the network to itself, and generators that start at the public seed and the
block's number. Nothing is left behind: neither in the network, nor for the next block. Read next:
`shared_state.py`, which networks are refused.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dppipe.data.reading.each_record import still_generators

if TYPE_CHECKING:
    from dppipe.learners.aggregation.inner_options import SgdInner
    from dppipe.learners.blocks.reading import Block
    from dppipe.privacy.release import PublicFacts


@dataclass(frozen=True)
class NetworkEstimator:
    """Trains copies of a network; the origin is its first weights, which are public."""

    options: SgdInner
    facts: PublicFacts
    network: nn.Module
    """The network of the run, which is only copied."""

    @property
    def size(self) -> int:
        """The number of weights that are trained."""
        return sum(parameter.numel() for parameter in trained_parameters(self.network))

    def estimate(self, block: Block) -> Tensor:  # -> [size]
        """Return how far training on one block moves the weights."""
        own = self.train(block)
        moved = []
        pairs = zip(trained_parameters(own), trained_parameters(self.network), strict=True)
        for after, before in pairs:
            moved.append((after.detach().double() - before.detach().double()).reshape(-1))
        return torch.cat(moved)

    def train(self, block: Block) -> nn.Module:
        """Return a copy of the network, trained on one block."""
        own = copy.deepcopy(self.network).train()
        seed = _seed(self.facts.seed, block.number)
        inputs = block.inputs.to(trained_parameters(own)[0].dtype)
        with still_generators() as restart, torch.enable_grad():
            restart()
            torch.manual_seed(seed)
            self._take_steps(own, inputs, block.targets)
        return own

    def set_weights(self, moved: Tensor) -> None:
        """Move the network's own weights by these differences `[size]`."""
        start = 0
        with torch.no_grad():
            for parameter in trained_parameters(self.network):
                part = moved[start : start + parameter.numel()].view_as(parameter)
                parameter.copy_(parameter.double() + part)
                start += parameter.numel()

    def _take_steps(self, own: nn.Module, inputs: Tensor, targets: Tensor) -> None:
        optimizer = torch.optim.SGD(
            trained_parameters(own),
            lr=self.options.lr,
            momentum=self.options.momentum,
            weight_decay=self.options.weight_decay,
        )
        for _ in range(self.options.epochs):
            order = torch.randperm(len(inputs))
            for drawn in torch.split(order, self.options.batch_size):
                optimizer.zero_grad()
                loss = mean_loss(own(inputs[drawn]), targets[drawn], task=self.facts.task)
                torch.autograd.backward(loss)
                optimizer.step()


def trained_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that aren't frozen, in the order of the network."""
    return [parameter for parameter in network.parameters() if parameter.requires_grad]


def mean_loss(outputs: Tensor, targets: Tensor, *, task: str) -> Tensor:  # [b, outputs], [b, ...]
    """Return the mean loss of a task: cross-entropy, or the mean square."""
    if task == "multiclass":
        return F.cross_entropy(outputs, targets)
    if task == "binary":
        return F.binary_cross_entropy_with_logits(outputs.flatten(), targets.to(outputs.dtype))
    return F.mse_loss(outputs, targets.to(outputs.dtype).view_as(outputs))


def _seed(seed: int, block: int) -> int:
    """Return the public seed of a block's training."""
    digest = hashlib.sha256(f"dppipe block {seed} {block}".encode()).digest()
    return int.from_bytes(digest[:8], "little") % 2**63
