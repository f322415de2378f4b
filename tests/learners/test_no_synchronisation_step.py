"""The whole private step never waits for the device: it runs, optimizer and all, on tensors that have no values and no host.

Module and gradients are on `meta` under `FakeTensorMode`, where reading a value, branching on one, a size that depends on one and
mixing devices all raise; a dispatch mode refuses copies to the host. Sampler, loader, engine, ledger and noise are the real ones.
What waits on purpose (a released count that the next bound follows) is shown to wait once, and only there.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
import pytest
import torch
import torch.nn.functional as F
from private_steps import private_step
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils.data import TensorDataset

import dppipe.learners.sgd.step as step_module
from dppipe.clipper_abilities import first_state
from dppipe.clipping import AdaClip, Adaptive, Automatic, Flat, Layerwise, Microbatch
from dppipe.engine import Engine
from dppipe.learners.gating.release_noise import ReleaseNoise
from dppipe.learners.gating.upcoming import UpcomingSteps
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.learners.records.unit_index import UserIndex
from dppipe.learners.sgd.step import PrivateStep
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.basic import Basic
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.laplace import LaplaceStream
from dppipe.randomness.streams import stream_key
from dppipe.runs.ledger import Ledger
from dppipe.sampling import Poisson, User

pytestmark = pytest.mark.sampled(3)

RECORDS, STEPS = 60, 3


def network():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 36, 8),
        nn.Tanh(),
        nn.Linear(8, 3),
    )


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


@pytest.fixture
def take_steps(no_copies_to_host):
    def take(tmp_path, *, clipping, sampler=None, noise=None, users=None, order=2):
        """Take private steps and the optimizer's on a device without values, and give the ledger's rows."""
        mechanism = "laplace" if order == 1 else "gaussian"
        parts = PrivateParts(
            sampler or Poisson(sample_rate=0.4),
            clipping,
            Constant(noise_multiplier=2.0, mechanism=mechanism),
            Basic() if order == 1 else Rdp(),
            Budget(epsilon=1e6, delta=1e-5),
        )
        plan = plan_privacy(
            parts, name="t", records=users.count if users is not None else RECORDS, steps=STEPS
        )
        with (
            Ledger.create(tmp_path / "ledger.jsonl", plan=plan.to_json()) as ledger,
            FakeTensorMode(),
            no_copies_to_host(),
        ):
            with torch.device("meta"):
                model = network()
            optimizer = torch.optim.Adam(model.parameters())
            dataset = TensorDataset(
                torch.zeros(RECORDS, 1, 8, 8), torch.zeros(RECORDS, dtype=torch.long)
            )
            loader = PrivateLoader(dataset, sampler=parts.sampler, index=users)
            loader.physical_batch_size = 7
            loader.arm(plan, stream=numpy.random.default_rng(1), ranks=Ranks())
            with Engine(model, loss, clipping, order=order) as engine:
                state = first_state(clipping, engine.groups.sizes)
                stream = noise or GaussianStream(stream_key("noise"))
                private = private_step(parts, "zero_out", plan, engine, ledger, stream, state)
                while private.goes_on():
                    gradient = private(
                        LogicalBatch(loader),
                        place=lambda piece: [tensor.to("meta") for tensor in piece],
                    )
                    assert {value.device.type for value in gradient.values()} == {"meta"}
                    for name, parameter in model.named_parameters():
                        parameter.grad = gradient[name].to(parameter.dtype)
                    optimizer.step()
        return read_ledger(tmp_path / "ledger.jsonl", plan=plan.to_json()).charges

    return take


@pytest.mark.parametrize(
    "clipping", [Flat(), Layerwise(), Automatic(), AdaClip()], ids=lambda clipper: clipper.kind
)
def test_a_whole_private_step_reads_nothing_from_the_device(take_steps, tmp_path, clipping):
    charges = take_steps(tmp_path, clipping=clipping)
    assert [charge.step for charge in charges] == [1, 2, 3]
    assert charges[-1].max_grad_norm == pytest.approx(1.0)


def test_nor_does_one_that_averages_examples(take_steps, tmp_path):
    assert len(take_steps(tmp_path, clipping=Microbatch(size=3))) == STEPS


def test_nor_does_one_that_draws_users(take_steps, tmp_path):
    users = UserIndex(numpy.arange(RECORDS) // 5, at_most=4)
    sampler = User(sample_rate=0.5, max_records_per_user=4)
    assert len(take_steps(tmp_path, clipping=Layerwise(), sampler=sampler, users=users)) == STEPS


def test_nor_does_one_with_secure_or_with_laplace_noise(take_steps, tmp_path):
    (tmp_path / "laplace").mkdir()
    secure = GaussianStream(stream_key("noise"), secure=True)
    assert len(take_steps(tmp_path, clipping=Flat(), noise=secure)) == STEPS
    laplace = LaplaceStream(stream_key("noise"))
    assert len(take_steps(tmp_path / "laplace", clipping=Flat(), noise=laplace, order=1)) == STEPS


@pytest.mark.parametrize("sampler", ["records", "users"])
def test_an_adaptive_clipper_reads_its_released_counts_and_nothing_else(
    take_steps, tmp_path, monkeypatch, sampler
):
    users = UserIndex(numpy.arange(RECORDS) // 5, at_most=4) if sampler == "users" else None
    given = {
        "users": users,
        "sampler": User(sample_rate=0.5, max_records_per_user=4) if users else None,
    }
    with pytest.raises(DataDependentOutputException):
        take_steps(
            tmp_path, clipping=Adaptive(grouping="layerwise", unclipped_num_std=5.0), **given
        )

    reads = []

    def read(values):
        reads.append(values.shape)
        return [0.0] * len(values)

    (tmp_path / "read").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("torch._subclasses.fake_tensor.FakeTensor.tolist", read)
        charges = take_steps(
            tmp_path / "read",
            clipping=Adaptive(grouping="layerwise", unclipped_num_std=5.0),
            **given,
        )
    assert reads == [(4,)] * STEPS
    # A mean of 0, which is recentred, is half of all examples: the bounds stay where they are.
    assert [charge.max_grad_norm for charge in charges] == pytest.approx([1.0] * STEPS)


MISTAKES = {
    "item": lambda values: values * float(values.sum().item()),
    "list": lambda values: values * values.tolist()[0],
    "branch": lambda values: values if values.sum() > 0 else -values,
    "data-dependent size": lambda values: values[values.isfinite()],
    "tensor of the host": lambda values: values + torch.zeros(1),
    "copy to the host": lambda values: values.cpu().to("meta"),
    "number": lambda values: values / float(values.norm()),
}


def in_noise(patched, mistake):
    add = GaussianStream.add_
    patched.setattr(
        GaussianStream,
        "add_",
        lambda self, flat, std, *, over: add(self, mistake(flat), std, over=over),
    )


def in_charge(patched, mistake):
    with_bound = PrivateStep._with_bound

    def charged(self, release, bounds):
        mistake(self._place(bounds))
        return with_bound(self, release, bounds)

    patched.setattr(PrivateStep, "_with_bound", charged)


def in_gate(patched, mistake):
    add_noise = ReleaseNoise.add_

    def noised(self, release, bounded, *, std):
        add_noise(self, release, replace(bounded, value=mistake(bounded.value)), std=std)

    patched.setattr(ReleaseNoise, "add_", noised)


def in_upcoming(patched, mistake):
    observe = UpcomingSteps.observe
    patched.setattr(
        UpcomingSteps, "observe", lambda self, released: observe(self, mistake(released))
    )


def in_statistics(patched, mistake):
    add = step_module.add_statistics
    patched.setattr(
        step_module,
        "add_statistics",
        lambda clipper, norms, bounds, **options: add(clipper, mistake(norms), bounds, **options),
    )


def in_division(patched, mistake):
    broadcast = Ranks.broadcast_
    patched.setattr(Ranks, "broadcast_", lambda self, flat: broadcast(self, mistake(flat)))


def in_bounds(patched, mistake):
    place = step_module.place_bounds
    patched.setattr(
        step_module, "place_bounds", lambda bounds, like: mistake(place(bounds, like=like))
    )


@pytest.mark.parametrize(
    "plant",
    [in_noise, in_charge, in_gate, in_upcoming, in_statistics, in_division, in_bounds],
    ids=lambda plant: plant.__name__,
)
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_the_step_is_caught(take_steps, tmp_path, monkeypatch, plant, mistake):
    plant(monkeypatch, mistake)
    with pytest.raises((RuntimeError, AssertionError)):
        take_steps(tmp_path, clipping=Flat())


def test_the_bounds_on_the_device_are_those_that_noise_and_charge_are_scaled_to(
    take_steps, tmp_path
):
    """A bound that float32 can't hold is rounded once, for all of them alike."""
    charges = take_steps(tmp_path, clipping=Flat(max_grad_norm=0.1))
    assert charges[0].max_grad_norm == float(torch.tensor(0.1)) != 0.1
    assert math.isclose(charges[0].max_grad_norm, 0.1, rel_tol=1e-7)
