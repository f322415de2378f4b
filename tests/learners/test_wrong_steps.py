"""Steps that circulate in lecture notes and are wrong: none of them is what dppipe does.

`tests/privacy/test_wrong_formulas.py` has the formulas about accounting. A statistical test's false-alarm rate stands with it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from private_steps import private_step
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dppipe.clipper_abilities import first_state
from dppipe.clipping import Clipper, Flat, Global, Microbatch
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.engine import Engine
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.noise import Constant
from dppipe.optim import Sgd
from dppipe.optim.averaging.polyak import Polyak
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.streams import stream_key
from dppipe.runs.ledger import Ledger
from dppipe.sampling import FullBatch, Poisson

WIDTH = 20_000
FALSE_ALARM = 5 * math.sqrt(2 / WIDTH)
"""How far a variance over WIDTH numbers is off once in 1.7 million times, relatively."""


class Weights(nn.Module):
    """One vector of weights, of which each record is its own gradient."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(width))


class Silent:
    """Noise that isn't there."""

    def add_(self, flat: Tensor, std: Any, *, over: float = 1.0) -> Tensor:
        return flat.div_(over)


def released(
    path: Path,
    clipping: Clipper,
    records: Tensor,
    *,
    z: float = 1.0,
    rate: float = 1.0,
    noisy: bool = True,
) -> Tensor:
    """Return the gradient that a step hands to the optimizer."""
    sampler = FullBatch() if rate == 1 else Poisson(sample_rate=rate)
    parts = PrivateParts(
        sampler, clipping, Constant(noise_multiplier=z), Rdp(), Budget(epsilon=1e6, delta=1e-6)
    )
    plan = plan_privacy(parts, name="t", records=len(records), steps=10)
    loader = PrivateLoader(TensorDataset(records), sampler=sampler)
    loader.physical_batch_size = 64
    loader.arm(plan, stream=numpy.random.default_rng(3), ranks=Ranks())
    engine = Engine(
        Weights(records.shape[1]), lambda model, batch: batch[0] @ model.weights, clipping
    )
    ledger = Ledger.create(path / f"{len(list(path.iterdir()))}.jsonl", plan=plan.to_json())
    noise: Any = GaussianStream(stream_key("noise")) if noisy else Silent()
    step = private_step(
        parts, "zero_out", plan, engine, ledger, noise, first_state(clipping, engine.groups.sizes)
    )
    return step(LogicalBatch(loader), place=lambda piece: piece)["weights"].double()


def test_large_gradients_are_scaled_down_and_small_ones_left_alone(tmp_path: Path) -> None:
    """To the bound: not left as they are or scaled up (max for min), nor to norm 1 (x / |x|)."""
    for norm, left in ((10.0, 2.0), (2.0, 2.0), (0.5, 0.5)):
        record = torch.tensor([[0.6, 0.8]]) * norm
        assert float(
            released(tmp_path, Flat(max_grad_norm=2.0), record, noisy=False).norm()
        ) == pytest.approx(left)


def test_it_is_a_bound_above_all_gradients_that_clips_nothing(tmp_path: Path) -> None:
    records = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    largest = float(records.norm(dim=1).max())
    above, below = (
        released(tmp_path, Flat(max_grad_norm=c * largest), records, noisy=False)
        for c in (1.01, 0.5)
    )
    assert above == pytest.approx(records.mean(0).double(), abs=1e-6)
    assert below != pytest.approx(records.mean(0).double(), abs=1e-2)


def test_a_sum_is_divided_by_the_expected_batch_size_not_by_the_real_one(tmp_path: Path) -> None:
    drawn = len(Poisson(sample_rate=0.3).draw(100, rate=0.3, generator=numpy.random.default_rng(3)))  # type: ignore[arg-type]
    assert drawn != 30
    mean = released(tmp_path, Flat(), torch.ones(100, 1), rate=0.3, noisy=False)
    assert float(mean) == pytest.approx(drawn / 30)


def test_noise_is_in_the_gradient_and_scaled_with_the_learning_rate(tmp_path: Path) -> None:
    """Added to the weights beside the step it would be as large at every learning rate."""
    gradient = released(tmp_path, Flat(), torch.zeros(10, WIDTH), z=2.0)
    for lr in (0.1, 1.0):
        weights = nn.Parameter(torch.zeros(WIDTH))
        weights.grad = gradient.float()
        Sgd(lr=lr).build([weights]).step()
        assert float(weights.detach().square().mean()) / (lr * 2.0 / 10) ** 2 == pytest.approx(
            1, abs=FALSE_ALARM
        )


@pytest.mark.parametrize("bound", [0.5, 4.0])
def test_a_larger_bound_has_more_noise_not_less(tmp_path: Path, bound: float) -> None:
    noise = 10 * released(tmp_path, Flat(max_grad_norm=bound), torch.zeros(10, WIDTH), z=1.5)
    assert float(noise.square().mean()) / (1.5 * bound) ** 2 == pytest.approx(1, abs=FALSE_ALARM)


def test_averages_that_are_clipped_have_noise_for_twice_the_bound(tmp_path: Path) -> None:
    """One record can turn an average around: 2C, not C or C over the number of records."""
    noise = 16 / 4 * released(tmp_path, Microbatch(size=4), torch.zeros(16, WIDTH))
    assert float(noise.square().mean()) / 2**2 == pytest.approx(1, abs=FALSE_ALARM)


def test_global_clipping_looks_at_one_example_alone(tmp_path: Path) -> None:
    """Whatever the norms of the others are, a record counts for the same."""
    clipping, record = Global(threshold=10.0), torch.tensor([[3.0, 4.0, 0.0]])
    for others in (0.0, 1.0, 9.0, 1e6):
        batch = torch.cat([record, torch.tensor([[0.0, 0.0, others]] * 4)])
        assert 5 * released(tmp_path, clipping, batch, noisy=False)[:2] == pytest.approx(
            torch.tensor([0.3, 0.4]).double()
        )


def test_noise_on_statistics_follows_public_limits_not_the_records() -> None:
    """How far two data sets' own values lie apart is no sensitivity: that is what any one record could do."""
    scaling = PrivateScaling(noise_multiplier=1.0, lower=(-3.0,), upper=(3.0,))
    alike, apart = (
        numpy.zeros((50, 1), numpy.float32),
        numpy.linspace(-3, 3, 50, dtype=numpy.float32)[:, None],
    )
    for one in (-3.0, 0.0, 1e9):
        for records in (alike, apart):
            other = numpy.concatenate([records, numpy.array([[one]], numpy.float32)])
            moved = scaling.total(other, None) - scaling.total(records, None)
            assert numpy.linalg.norm(moved) <= scaling.sensitivity(1) * (1 + 1e-9)
    local = abs(float(alike[0, 0]) - float(alike[-1, 0]))
    assert scaling.sensitivity(1) > local == 0


def test_an_average_of_weights_is_divided_by_their_number() -> None:
    averaging, mean = Polyak(start=0.0), 0.0
    for step in range(1, 11):
        mean += averaging.weight(step, steps=10) * (step - mean)
    assert mean == pytest.approx(5.5)  # their sum is 55
