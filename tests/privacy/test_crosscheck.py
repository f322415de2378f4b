"""Independent accountants agree with dppipe's on random configurations.

prv-accountant (Gopi, Lee and Wutschitz 2021) bounds epsilon from both sides by its own discretisation; opacus has its own Renyi
divergences. prv-accountant comes with the extra `dev`. opacus doesn't: its wheel also installs packages named `benchmarks` and
`examples`, so its test is skipped unless opacus was installed by hand (`pip install --no-deps opacus`).
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from typing import Any

import dp_accounting
import pytest

from dppipe.privacy.accountants import Advanced, Basic, Pld, Rdp
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.rdp.divergences import ORDERS

COARSE = 1e-3
"""How far dppipe's PLD may lie above the interval of prv-accountant: both round losses onto a grid."""


@dataclass(frozen=True)
class Case:
    rate: float
    z: float
    steps: int
    delta: float

    def __str__(self) -> str:
        return f"q={self.rate:.4f},z={self.z:.3f},T={self.steps},delta={self.delta:g}"

    @functools.cache  # noqa: B019  a few cases, each asked for in several tests
    def epsilon(self, accountant: type[Accountant]) -> float:
        event = dp_accounting.PoissonSampledDpEvent(
            self.rate, dp_accounting.GaussianDpEvent(self.z)
        )
        return accountant().compose([(event, self.steps)], relation="zero_out").epsilon(self.delta)


def drawn(count: int, *, seed: int) -> list[Case]:
    """Rate, noise and steps are uniform on a logarithmic scale."""
    source = random.Random(seed)

    def between(low: float, high: float) -> float:
        return math.exp(source.uniform(math.log(low), math.log(high)))

    return [
        Case(
            between(1e-3, 0.3),
            between(0.6, 6.0),
            round(between(10, 3000)),
            source.choice([1e-5, 1e-6]),
        )
        for _ in range(count)
    ]


def interval(case: Case) -> tuple[float, float]:
    """Return prv-accountant's bounds on epsilon; where its own check of a fine grid fails (large epsilons), on a coarser one."""
    prv: Any = pytest.importorskip("prv_accountant")
    mechanism = prv.PoissonSubsampledGaussianMechanism(
        noise_multiplier=case.z, sampling_probability=case.rate
    )
    for error in (0.01, 0.1):
        try:
            theirs = prv.PRVAccountant(
                prvs=mechanism,
                max_self_compositions=case.steps,
                eps_error=error,
                delta_error=case.delta / 1000,
            )
        except RuntimeError as failure:
            if "Discrete mean differs" not in str(failure):
                raise
            continue
        low, _, high = theirs.compute_epsilon(delta=case.delta, num_self_compositions=[case.steps])
        assert high - low < 2 * error + 0.01
        return low, high
    pytest.skip("prv-accountant has no answer")


FEW, MANY = drawn(12, seed=1), drawn(30, seed=2)
CASES = [*(pytest.param(case, id=str(case)) for case in FEW)]
CASES += [pytest.param(case, id=str(case), marks=pytest.mark.slow) for case in MANY]


@pytest.mark.parametrize("case", CASES)
def test_pld_lies_within_the_interval_of_an_independent_accountant(case: Case) -> None:
    """Below the interval's lower end it would be no upper bound, so that end has no tolerance."""
    low, high = interval(case)
    assert low <= case.epsilon(Pld) <= high + COARSE


@pytest.mark.parametrize("case", CASES)
def test_rdp_is_what_an_independent_accountant_gives_at_the_same_orders(case: Case) -> None:
    opacus: Any = pytest.importorskip("opacus.accountants")
    theirs = opacus.RDPAccountant()
    theirs.history = [(case.z, case.rate, case.steps)]
    assert case.epsilon(Rdp) == pytest.approx(
        theirs.get_epsilon(case.delta, alphas=list(ORDERS)), rel=0.01
    )


@pytest.mark.parametrize("case", CASES)
def test_looser_theorems_give_larger_epsilons(case: Case) -> None:
    """Renyi divergences aren't compared with the theorems: of a few steps that cost next to nothing they say less."""
    tight, renyi, advanced = case.epsilon(Pld), case.epsilon(Rdp), case.epsilon(Advanced)
    assert tight <= renyi
    assert tight <= advanced <= case.epsilon(Basic)


def test_a_schedule_of_several_noises_lies_within_the_interval_too() -> None:
    prv: Any = pytest.importorskip("prv_accountant")
    parts = [(0.02, 2.0, 200), (0.02, 1.5, 200), (0.01, 1.0, 100)]
    mechanisms = [
        prv.PoissonSubsampledGaussianMechanism(noise_multiplier=z, sampling_probability=q)
        for q, z, _ in parts
    ]
    counts = [count for _, _, count in parts]
    theirs = prv.PRVAccountant(
        prvs=mechanisms, max_self_compositions=counts, eps_error=0.01, delta_error=1e-8
    )
    low, _, high = theirs.compute_epsilon(delta=1e-5, num_self_compositions=counts)
    steps = [
        (dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z)), count)
        for q, z, count in parts
    ]
    assert low <= Pld().compose(steps, relation="zero_out").epsilon(1e-5) <= high + COARSE
