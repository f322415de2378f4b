"""What an earlier run counts for: its whole plan, wherever it was stopped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from written_runs import write_run

from dppipe.clipping.flat import Flat
from dppipe.clipping.jl import Jl
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.noise.constant import Constant
from dppipe.noise.linear import Linear
from dppipe.optim import schedules
from dppipe.planning.earlier.recognition import runs_of
from dppipe.planning.earlier.runs import Earlier, EarlierRun
from dppipe.planning.parts import PrivateParts
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.plain import event_from_data
from dppipe.privacy.events.sequences import merge
from dppipe.sampling import BallsInBins, Poisson, Sampler, Shuffle

STEPS, DELTA = 8, 1e-5
BUDGET = Budget(epsilon=1e6, delta=DELTA)
STATISTICS = {
    "no statistics": (),
    "statistics": (PrivateScaling(noise_multiplier=3.0),),
    "costly statistics": (PrivateScaling(noise_multiplier=0.5),),
}
GROWING = schedules.Linear(end=2.0)
SAMPLERS: dict[str, Sampler] = {
    "poisson": Poisson(sample_rate=0.1),
    "growing batches": Poisson(sample_rate=0.1, batch_schedule=GROWING),
    "shuffle": Shuffle(expected_batch_size=300),
    "balls in bins": BallsInBins(expected_batch_size=300),
}
NOISES = {"constant": Constant(noise_multiplier=1.0), "falling": Linear(noise_multiplier=1.0)}


def planned(sampler: str, noise: str, statistics: str) -> tuple[PrivateParts, StepPlan]:
    preludes = STATISTICS[statistics]
    parts = PrivateParts(SAMPLERS[sampler], Flat(), NOISES[noise], Rdp(), BUDGET, preludes)
    return parts, plan_privacy(parts, name="earlier", records=1000, steps=STEPS)


def counted(run: EarlierRun) -> Counter[object]:
    return Counter({event_from_data(each.event): each.count for each in run.events})


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_wherever_a_run_was_stopped_its_whole_plan_counts(
    tmp_path: Path,
    sampler: str,
    noise: str,
    statistics: str,
) -> None:
    parts, plan = planned(sampler, noise, statistics)
    for charged in range(1, STEPS + 1):
        write_run(tmp_path / str(charged), parts, plan, charged=charged)
        (run,) = runs_of(tmp_path / str(charged))
        assert counted(run) == Counter(merge(parts.committed(plan)))
        cost = Earlier(records="same", runs=(run,)).composition(Rdp(), relation="zero_out")
        assert cost.epsilon(DELTA) == pytest.approx(plan.epsilon, rel=1e-9)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_before_its_first_step_a_run_counts_for_its_statistics(
    tmp_path: Path,
    statistics: str,
) -> None:
    parts, plan = planned("poisson", "constant", statistics)
    write_run(tmp_path / "run", parts, plan, charged=0)
    (run,) = runs_of(tmp_path / "run")
    assert counted(run) == Counter(merge(parts.before))


@pytest.mark.parametrize("charged", [1, STEPS])
def test_terms_of_a_run_are_passed_on(tmp_path: Path, charged: int) -> None:
    budget = BUDGET.model_copy(update={"scope": "shared"})
    parts = PrivateParts(SAMPLERS["poisson"], Flat(), NOISES["constant"], Rdp(), budget)
    plan = plan_privacy(parts, name="earlier", records=1000, steps=STEPS, reproducible=True)
    write_run(tmp_path / "run", parts, plan, charged=charged)
    (run,) = runs_of(tmp_path / "run")
    assert (run.scope, run.reproducible, run.filtered) == ("shared", True, False)
    assert (run.relation, run.unit, run.failure_delta) == ("zero_out", "example", 0.0)


@pytest.mark.parametrize("charged", range(1, STEPS + 1))
def test_what_a_run_has_set_aside_of_delta_counts_wherever_it_was_stopped(
    tmp_path: Path,
    charged: int,
) -> None:
    clipping = Jl(delta=DELTA / 10, projections=400)
    parts = PrivateParts(SAMPLERS["poisson"], clipping, NOISES["constant"], Rdp(), BUDGET)
    plan = plan_privacy(parts, name="earlier", records=1000, steps=STEPS)
    write_run(tmp_path / "run", parts, plan, charged=charged)
    (run,) = runs_of(tmp_path / "run")
    cost = Earlier(records="same", runs=(run,)).composition(Rdp(), relation="zero_out")
    assert run.failure_delta == DELTA / 10
    assert cost.epsilon(DELTA) == pytest.approx(plan.epsilon, rel=1e-9)
