"""Model randomness in a private step: secret, fresh for each step, and without a trace outside."""

from __future__ import annotations

import random

import numpy
import torch

from dppipe.randomness.keystream import Keystream
from dppipe.randomness.model_randomness import ModelRandomness
from dppipe.randomness.streams import stream_key

CPU = torch.device("cpu")


def draws():
    return torch.rand(3).tolist(), random.random(), float(numpy.random.rand())


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def test_what_is_drawn_in_a_step_does_not_follow_the_public_seed():
    found = []
    for _ in range(2):
        seed_all(7)
        with ModelRandomness(Keystream(stream_key("model")), device=CPU).secret():
            found.append(draws())
    assert all(left != right for left, right in zip(*found, strict=True))


def test_what_is_drawn_outside_goes_on_from_the_public_seed_as_if_there_had_been_no_step():
    randomness = ModelRandomness(Keystream(stream_key("model")), device=CPU)
    seed_all(7)
    expected = [draws(), draws()]
    seed_all(7)
    found = [draws()]
    with randomness.secret():
        draws()
    found.append(draws())
    assert found == expected


def test_every_step_draws_anew_however_much_the_one_before_has_drawn():
    key = stream_key("model", seed=3)
    found = []
    for count in (1, 100):
        randomness = ModelRandomness(Keystream(key), device=CPU)
        with randomness.secret():
            torch.rand(count)
            first = torch.rand(1).item()
        with randomness.secret():
            found.append(torch.rand(2).tolist())
        assert first not in found[-1]
    assert found[0] == found[1]
