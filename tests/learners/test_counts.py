"""The counts that adaptive clipping follows: each unit counts once, and those of several processes are counted together."""

from __future__ import annotations

import numpy
import pytest
import torch
from private_steps import private_step
from torch import nn
from torch.utils.data import TensorDataset

from dppipe.clipper_abilities import first_state
from dppipe.clipping import Adaptive
from dppipe.engine import Engine
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.learners.records.unit_index import UserIndex
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs.follower import NoLedger
from dppipe.sampling import Poisson, User

OWNERS = numpy.array([0, 1, 1, 1, 1, 1, 2, 3, 4, 4])
SIZES = torch.tensor([0.1, 9, 9, 9, 9, 9, 0.1, 0.2, 9, 9])
"""The norm of each record's gradient: users 1 and 4 are above the bound of 1."""


class Silent:
    """Noise that isn't there; it keeps what it was added to."""

    def add_(self, flat, std, *, over=1.0):
        self.sums = flat.clone()
        return flat.div_(over)


class Meeting(Ranks):
    """One of two ranks in one process: the second leaves its sums, the first adds them to its own."""

    left: tuple[torch.Tensor, ...] = ()

    def sum_(self, flat):
        if self.first:
            flat += Meeting.left[0]
        else:
            Meeting.left = (flat.clone(),)

    def broadcast_(self, flat):
        """Do nothing."""


POISON = 77.0
"""An input on which the model raises."""


def loss(model, batch):
    if bool((batch[0] == POISON).any()):
        raise ArithmeticError("a record's value")
    return model(batch[0]).squeeze(1)


def counted(sampler, ranks, sizes=SIZES):
    """Take one step on all records, and return the sum of its counts before noise."""
    parts = PrivateParts(
        sampler,
        Adaptive(unclipped_num_std=50.0),
        Constant(noise_multiplier=1.0),
        Rdp(),
        Budget(epsilon=1e6, delta=1e-5),
    )
    by_users = isinstance(sampler, User)
    plan = plan_privacy(parts, name="t", records=5 if by_users else 10, steps=2)
    users = UserIndex(OWNERS, at_most=64) if by_users else None
    loader = PrivateLoader(TensorDataset(sizes[:, None]), sampler=sampler, index=users)
    loader.physical_batch_size = 3
    loader.arm(plan, stream=Keystream(stream_key("sampler")), ranks=ranks)
    engine = Engine(nn.Linear(1, 1, bias=False), loss, parts.clipping)
    state = first_state(parts.clipping, engine.groups.sizes)
    step = private_step(
        parts, "zero_out", plan, engine, NoLedger(), Silent(), state, ranks, count_noise=Silent()
    )
    step(LogicalBatch(loader), place=lambda piece: piece)
    return step.gate.sources.get("count").sums.tolist() if ranks.first else None


@pytest.mark.parametrize(
    ("sampler", "below", "above"),
    [(Poisson(sample_rate=1.0), 3, 7), (User(sample_rate=1.0), 3, 2)],
    ids=["records", "users"],
)
def test_each_unit_counts_once(sampler, below, above):
    assert counted(sampler, Ranks()) == [(below - above) / 2]


@pytest.mark.parametrize(
    "sampler", [Poisson(sample_rate=1.0), User(sample_rate=1.0)], ids=["records", "users"]
)
def test_counts_of_two_processes_are_those_of_one(sampler):
    counted(sampler, Meeting(1, 2))
    assert counted(sampler, Meeting(0, 2)) == counted(sampler, Ranks())


@pytest.mark.parametrize("broken", range(10))
@pytest.mark.parametrize("kind", [Poisson, User])
def test_a_record_on_which_the_model_raises_changes_no_other_units_count(kind, broken):
    sizes = SIZES.clone()
    sizes[broken] = POISON
    owners = OWNERS if kind is User else numpy.arange(10)
    usable = {int(owner) for place, owner in enumerate(owners) if place != broken}
    below = {int(owner) for owner, size in zip(owners, SIZES, strict=True) if size <= 1}
    wanted = sum(0.5 if owner in below else -0.5 for owner in usable)
    assert counted(kind(sample_rate=1.0), Ranks(), sizes) == [wanted]
