"""Scores of networks: minus the sum over units of their losses, each within a public bound.

Records are evaluated one at a time. So a record's losses are the same bits whichever other records
there are, and one unit's presence moves each score by its own loss alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from dppipe.data.reading.each_record import still_generators
from dppipe.learners.gating.unit_isolation import restoring
from dppipe.learners.gating.unit_sums import cut_scores
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.silenced_output import silenced
from dppipe.losses.by_task import per_record_loss

if TYPE_CHECKING:
    from dppipe.data.base import Task
    from dppipe.learners.records.batch_reader import RecordBatch
    from dppipe.learners.records.training_records import TrainingRecords
    from dppipe.privacy.release import PublicFacts

_BATCH = 512
"""How many records are read at once; they are evaluated one by one."""


def loss_scores(
    networks: Sequence[nn.Module],
    records: TrainingRecords,
    facts: PublicFacts,
    *,
    loss_bound: float,
) -> Tensor:  # -> [networks]
    """Return minus the sum of all units' losses, for each network.

    Guarantee: a unit lowers each score by a number in [0, loss_bound] that follows from its own
    records alone; sums of up to 2^29 units are exact. A unit's loss is the mean of its usable
    records' losses. A loss is clamped to [0, loss_bound]. A record that can't be used lowers no
    score. One on which a network raises, or has no number for a loss, lowers that network's score
    by the whole bound: a network that fails isn't preferred.
    """
    losses: list[Tensor] = []
    usable: list[Tensor] = []
    owners: list[Tensor] = []
    with silenced():
        for batch in records.batches(facts, size=_BATCH):
            losses.append(_batch_losses(networks, batch, facts, loss_bound=loss_bound))
            usable.append(batch.usable)
            owners.append(batch.owners)
    each = _unit_means(torch.cat(losses), torch.cat(usable), torch.cat(owners))
    return -cut_scores(each.clamp(max=loss_bound), loss_bound).sum(0)


def record_loss(network: nn.Module, one: Tensor, target: Tensor, *, task: str) -> float:
    """Return what a network loses on one record, `[1, ...]`; the network stays as it was."""
    kind = next((weight.dtype for weight in network.parameters()), torch.float32)
    with torch.no_grad():
        if _keeps_nothing(network):
            predictions = network(one.to(kind))
        else:
            with restoring(network), still_generators() as restart:
                restart()  # what it draws doesn't follow from the records before
                predictions = network(one.to(kind))
        if task == "regression":
            target = target.to(predictions.dtype)
        (loss,) = per_record_loss(predictions, target, task=cast("Task", task))
    return float(loss)


def _batch_losses(
    networks: Sequence[nn.Module], batch: RecordBatch, facts: PublicFacts, *, loss_bound: float
) -> Tensor:  # -> [places, networks]
    """Return losses within the bound, cut as scores are; zeros at places that can't be used."""
    found = torch.zeros(len(batch.usable), len(networks), dtype=torch.float64)
    for place in batch.usable.nonzero().flatten().tolist():
        one = batch.inputs[place : place + 1]
        target = batch.targets[place : place + 1]
        for number, network in enumerate(networks):
            loss = math.nan
            with SuppressRecordErrors():
                loss = record_loss(network, one, target, task=facts.task)
            found[place, number] = loss_bound if math.isnan(loss) else loss
    return cut_scores(found.clamp(0.0, loss_bound), loss_bound)


def _unit_means(losses: Tensor, usable: Tensor, owners: Tensor) -> Tensor:
    # [n, networks], [n], [n] -> [units, networks]
    """Return the mean loss of each unit's usable records; zeros for a unit without any."""
    units = int(owners.max()) + 1
    counts = torch.bincount(owners[usable], minlength=units).clamp_min(1)
    sums = torch.zeros(units, losses.shape[1], dtype=torch.float64)
    sums.index_add_(0, owners[usable], losses[usable])
    return sums / counts[:, None]


def _keeps_nothing(network: nn.Module) -> bool:
    """Return whether all layers are torch's own, without hooks: in eval mode they keep nothing."""
    for layer in network.modules():
        hooked = layer._forward_hooks or layer._forward_pre_hooks
        if hooked or not type(layer).__module__.startswith("torch.nn."):
            return False
    return True
