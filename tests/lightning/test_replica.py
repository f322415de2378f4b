"""What user code writes while it sees records lands on a copy, and is undone before the next evaluation."""

from __future__ import annotations

import copy
import threading
from typing import ClassVar

import pytest
import pytorch_lightning as pl
import torch
import torchmetrics
from torch import nn

from dppipe.errors import PrivacyRefusal
from dppipe.lightning.isolation.replica import Replica
from dppipe.lightning.networks import from_clean_state


class Meter:
    """An object of the user's own that adds up."""

    def __init__(self):
        self.total = 0.0


class Keeps(pl.LightningModule):
    """A module that keeps what it sees in every way there is."""

    seen_by_all: ClassVar[list] = []

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.norm = nn.BatchNorm1d(2, affine=False).eval()
        self.register_buffer("mean", torch.zeros(2))
        self.losses, self.by_name, self.meter = [], {}, Meter()
        self.average = torch.zeros(2)
        self.accuracy = torchmetrics.MeanMetric()
        self.note = lambda value: self.losses.append(value)

    def forward(self, x):
        out = self.layer(x)
        seen = out.detach()
        self.last = seen
        self.note(seen.mean().item())
        self.by_name["last"] = seen
        self.meter.total += seen.sum().item()
        self.average.add_(seen.mean(0))
        self.accuracy.update(seen.mean())
        self.seen_by_all.append(seen)
        self.mean += seen.mean(0)
        self.mean.data.add_(1.0)
        self.frozen.weight.data.add_(seen.mean())
        self.norm.train()
        self.trainer_note = self._trainer
        return out


def state_of(module):
    return copy.deepcopy(
        {
            "losses": module.losses,
            "by_name": list(module.by_name),
            "total": module.meter.total,
            "average": module.average.tolist(),
            "updates": module.accuracy._update_count,
            "class": len(module.seen_by_all),
            "mean": module.mean.tolist(),
            "frozen": module.frozen.weight.tolist(),
            "mode": module.norm.training,
            "names": sorted(vars(module)),
        }
    )


def test_nothing_that_an_evaluation_writes_reaches_the_module():
    module = Keeps()
    before = state_of(module)
    replica = Replica(module)
    replica.module(torch.randn(4, 3))
    assert state_of(module) == before
    assert replica.written


def test_every_evaluation_starts_from_the_clean_state():
    replica = Replica(Keeps())
    clean = state_of(replica.module)
    found = []

    def look(model, batch):
        found.append(state_of(model))
        return model(batch).sum(1)

    loss = from_clean_state(look, replica)
    for _ in range(3):
        loss(replica.module, torch.randn(2, 3))
    assert found == [clean] * 3


def test_trainable_parameters_are_shared_and_what_is_written_into_them_is_undone():
    module = Keeps()
    replica = Replica(module)
    assert replica.module.layer.weight is module.layer.weight
    before = module.layer.weight.detach().clone()
    with replica.guarded():
        module.layer.weight.data.add_(1.0)
        with torch.no_grad():
            module.layer.bias.add_(1.0)
    assert torch.equal(module.layer.weight, before)
    with torch.no_grad():
        module.layer.weight.add_(1.0)  # an optimizer's own step
    assert torch.equal(replica.module.layer.weight, before + 1)


def test_what_hooks_set_on_the_module_is_taken_over():
    module = Keeps()
    replica = Replica(module)
    module.temperature, module.losses = 0.5, []
    replica.module(torch.randn(2, 3))
    replica.follow()
    replica.restore()
    assert replica.module.temperature == 0.5
    assert replica.module.losses == []
    assert replica.module.losses is not module.losses


def test_a_frozen_network_that_a_hook_updates_is_seen_as_the_hook_left_it():
    module = Keeps()
    replica = Replica(module)
    with torch.no_grad():
        module.frozen.weight.mul_(0.5).add_(
            module.layer.weight.sum()
        )  # a teacher that follows its student
    replica.follow()
    assert torch.equal(replica.module.frozen.weight, module.frozen.weight)
    replica.module(torch.randn(2, 3))
    replica.restore()
    assert torch.equal(replica.module.frozen.weight, module.frozen.weight)


def test_modes_that_hooks_change_are_not_taken_over():
    module = Keeps()
    replica = Replica(module)
    module.norm.train()
    replica.follow()
    assert not replica.module.norm.training


def test_the_state_to_save_is_that_of_the_start():
    module = Keeps()
    replica = Replica(module)
    start = copy.deepcopy(module.state_dict())
    module.mean += 5
    module.frozen.weight.data.mul_(3)
    assert set(replica.start) == {name for name in start if not name.startswith("layer.")}
    assert all(torch.equal(replica.start[name], start[name]) for name in replica.start)


class Loud(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, x):
        self.log("x", x.sum())
        self.logger.experiment.add_scalar("x", x.sum(), self.trainer.global_step)
        self.optimizers().param_groups[0]["lr"] = 99.0
        self.trainer.should_stop = True
        self.trainer.lightning_module.leaked = x
        assert self.lr_schedulers() is None
        return self.layer(x)


class FakeTrainer:
    global_step, should_stop, logger = 3, False, None

    def __init__(self, module):
        self.optimizers = [torch.optim.SGD(module.parameters(), lr=0.1)]


def test_loggers_optimizers_and_the_trainer_can_t_be_written_to_from_a_step():
    module = Loud()
    trainer = FakeTrainer(module)
    Replica(module, trainer=trainer).module(torch.ones(1, 1))
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.1
    assert trainer.should_stop is False
    assert not hasattr(module, "leaked")


def test_a_module_that_can_t_be_copied_is_refused_by_the_name_of_what_can_t():
    module = Keeps()
    module.lines = (line for line in ())
    with pytest.raises(PrivacyRefusal, match="TypeError at lines"):
        Replica(module)


def test_a_lock_is_shared_and_what_stands_beside_it_is_copied():
    module = Keeps()
    module.meter.lock, module.lock = threading.Lock(), threading.RLock()
    replica = Replica(module)
    replica.module(torch.randn(2, 3))
    replica.restore()
    assert replica.module.lock is module.lock
    assert replica.module.meter.lock is module.meter.lock
    assert replica.module.meter is not module.meter
    assert (module.meter.total, replica.module.meter.total) == (0.0, 0.0)


def test_a_network_of_torchs_own_layers_costs_no_restoring():
    replica = Replica(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval()))
    assert not replica.has_own_code


HOOKS = {
    "before a layer": lambda layer, keep: layer.register_forward_pre_hook(keep),
    "before a layer, with names": lambda layer, keep: layer.register_forward_pre_hook(
        keep, with_kwargs=True
    ),
    "after a layer": lambda layer, keep: layer.register_forward_hook(keep),
    "before its gradient": lambda layer, keep: layer.register_full_backward_pre_hook(keep),
    "after its gradient": lambda layer, keep: layer.register_full_backward_hook(keep),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_what_a_hook_of_any_kind_keeps_is_kept_from_a_module_of_torchs_own_layers(kind):
    seen = []

    def keep(module, *values):
        seen.append(values)

    module = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    HOOKS[kind](module[1], keep)
    replica = Replica(module)
    replica.module(torch.randn(4, 3)).sum().backward()
    assert seen == []
    assert replica.written
    replica.restore()
    assert not replica.written
