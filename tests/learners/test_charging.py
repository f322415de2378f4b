"""A charge in the background of a step: durable before anything is released, kept whatever happens in between."""

from __future__ import annotations

import os
import threading
import time

import numpy
import pytest
import torch
from private_steps import private_step
from torch import nn
from torch.utils.data import TensorDataset

from dppipe.clipping import Flat
from dppipe.engine import Engine
from dppipe.errors import DppipeError
from dppipe.learners.gating import charging as charging_module
from dppipe.learners.gating.charging import charging
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs import ledger as ledger_module
from dppipe.runs.ledger import Ledger
from dppipe.sampling import Poisson

PATIENCE = 20.0


class Watching:
    """A source of noise that notes what stands in the ledger's file at the instant of a release."""

    def __init__(self, path):
        self.path, self.seen = path, []

    def add_(self, flat, std, *, over=1.0):
        self.seen.append(self.path.read_bytes().count(b"\n"))
        return flat.div_(over)


@pytest.fixture
def private(tmp_path):
    parts = PrivateParts(
        Poisson(sample_rate=0.5),
        Flat(),
        Constant(noise_multiplier=1.0),
        Rdp(),
        Budget(epsilon=1e6, delta=1e-5),
    )
    plan = plan_privacy(parts, name="t", records=30, steps=5)
    loader = PrivateLoader(
        TensorDataset(torch.randn(30, 3), torch.randn(30)), sampler=parts.sampler
    )
    loader.arm(plan, stream=numpy.random.default_rng(0), ranks=Ranks())
    engine = Engine(
        nn.Linear(3, 1), lambda model, batch: model(batch[0]).squeeze(1) * batch[1], parts.clipping
    )
    with Ledger.create(tmp_path / "ledger.jsonl", plan=plan.to_json()) as ledger:
        step = private_step(parts, "zero_out", plan, engine, ledger, Watching(ledger.path), {})
        yield step, LogicalBatch(loader)


def rows(step):
    return read_ledger(step.gate.ledger.path, plan=step.plan.to_json()).charges


def first_charge(step):
    """Return the charge of the first step, at a bound of 1."""
    return step.gate.charge_of(step._with_bound(step.gate.next(), (1.0,)))


def test_a_slow_disk_holds_the_release_back(private, monkeypatch):
    step, batch = private
    write = os.write

    def slow(fd, data):
        time.sleep(0.2)
        return write(fd, data)

    monkeypatch.setattr(ledger_module.os, "write", slow)
    for _ in range(3):
        step(batch, place=lambda piece: piece)
    assert step.gate.sources.get("noise").seen == [1, 2, 3]


def test_the_disk_works_while_the_model_does(private, monkeypatch):
    """The write waits for the first record to be placed, and is over before noise is added: neither stands before the other."""
    step, batch = private
    placed, write = threading.Event(), os.write

    def after_placing(fd, data):
        assert placed.wait(PATIENCE)
        return write(fd, data)

    monkeypatch.setattr(ledger_module.os, "write", after_placing)
    step(batch, place=lambda piece: (placed.set(), piece)[1])
    assert step.gate.sources.get("noise").seen == [1]


def test_a_charge_that_fails_releases_nothing(private, monkeypatch):
    step, batch = private

    def full(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger_module.os, "write", full)
    with pytest.raises(DppipeError, match="Nothing was released"):
        step(batch, place=lambda piece: piece)
    assert step.gate.sources.get("noise").seen == []
    with pytest.raises(DppipeError, match="closed or has failed"):
        step(batch, place=lambda piece: piece)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_a_step_that_fails_stays_charged_and_is_not_taken_again(private, error):
    step, batch = private
    step(batch, place=lambda piece: piece)

    def fail(piece):
        raise error

    with pytest.raises(error):
        step(batch, place=fail)
    step(batch, place=lambda piece: piece)
    assert [charge.step for charge in rows(step)] == [1, 2, 3]
    assert [charge.epsilon for charge in rows(step)] == [
        step.plan.epsilon_after(k) for k in (1, 2, 3)
    ]
    assert step.gate.sources.get("noise").seen == [1, 3]


def test_nothing_is_written_after_the_block_however_it_is_left(private, monkeypatch):
    step, _ = private
    write, over = os.write, []

    def slow(fd, data):
        time.sleep(0.2)
        over.append(True)
        return write(fd, data)

    monkeypatch.setattr(ledger_module.os, "write", slow)
    charge = first_charge(step)
    with (
        pytest.raises(KeyboardInterrupt),
        charging(step.gate.ledger, charge, writer=step.gate._writer),
    ):
        raise KeyboardInterrupt
    assert over == [True]
    assert step.gate.ledger.rows == len(rows(step)) == 1


def test_an_interrupt_while_waiting_still_waits(private, monkeypatch):
    step, _ = private
    wait, calls = charging_module.wait, []

    def interrupted(futures):
        calls.append(True)
        if len(calls) == 1:
            raise KeyboardInterrupt
        wait(futures)

    monkeypatch.setattr(charging_module, "wait", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        charging(step.gate.ledger, first_charge(step), writer=step.gate._writer),
    ):
        pass
    assert len(calls) == 2
    assert step.gate.ledger.rows == 1
