"""Learning-rate schedules against their formulas, and how they stand inside an optimizer's options."""

from __future__ import annotations

import math
import pickle

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from dppipe.optim import Adam, Sgd
from dppipe.optim.schedules import Constant, Cosine, Linear


def test_a_linear_schedule_falls_in_equal_steps() -> None:
    factors = [Linear(end=0.2).factor_at(step, steps=8) for step in range(9)]
    assert factors == pytest.approx([1 - 0.1 * step for step in range(9)])


def test_a_cosine_schedule_follows_half_a_cosine() -> None:
    factors = [Cosine().factor_at(step, steps=6) for step in range(7)]
    assert factors == pytest.approx([math.cos(math.pi * step / 12) ** 2 for step in range(7)])
    assert Cosine(end=0.5).factor(1.0) == pytest.approx(0.5)


def test_a_cosine_schedule_is_torchs_own() -> None:
    ours, theirs = (Sgd(lr=1.0).build([nn.Parameter(torch.zeros(1))]) for _ in range(2))
    pair = [
        (ours, Cosine().build(ours, 10)),
        (theirs, torch.optim.lr_scheduler.CosineAnnealingLR(theirs, 10)),
    ]
    for _ in range(10):
        for optimizer, scheduler in pair:
            optimizer.step()
            scheduler.step()
        assert ours.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], abs=1e-12)


def test_warm_up_rises_in_equal_steps_to_the_full_rate() -> None:
    factors = [Constant(warmup=0.3).factor_at(step, steps=10) for step in range(10)]
    assert factors == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1])
    falling = [Linear(warmup=0.5).factor_at(step, steps=4) for step in range(5)]
    assert falling == pytest.approx([1 / 3, 2 / 3, 1, 0.5, 0])


def test_steps_beyond_the_run_keep_the_last_factor() -> None:
    assert Linear(end=0.1).factor_at(50, steps=10) == pytest.approx(0.1)


def test_an_optimizer_names_its_schedule_by_kind_or_block() -> None:
    assert Sgd.from_data({"schedule": "linear"}).schedule == Linear()
    assert Adam.from_data({"schedule": {"kind": "cosine", "warmup": 0.1}}).schedule == Cosine(
        warmup=0.1
    )
    with pytest.raises(ValidationError, match="no schedule named 'cosin'"):
        Sgd.from_data({"schedule": "cosin"})


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0},
        {"momentum": 1},
        {"weight_decay": -1},
        {"nesterov": True},
        {"schedule": {"kind": "linear", "warmup": 1}},
        {"schedule": {"kind": "linear", "end": -1}},
        {"betas": [0.9, 0.99]},
    ],
)
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Sgd.from_data(options)


def test_a_scheduler_can_go_to_another_process() -> None:
    optimizer = Sgd().build([nn.Parameter(torch.zeros(1))])
    scheduler = Cosine(warmup=0.2).build(optimizer, 10)
    assert pickle.loads(pickle.dumps(scheduler)).get_last_lr() == scheduler.get_last_lr()
