"""A plan and the parts that a run is given with it: they must describe the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from dppipe.clipping import Adaptive, Flat
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant, Dynamic, Exponential, Linear
from dppipe.optim import schedules
from dppipe.planning.comparison import refuse_other_parts
from dppipe.planning.earlier.runs import ChargedEvent, Earlier, EarlierRun
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.step_plan import NoiseRun, StepPlan
from dppipe.planning.step_runs import CurvePoint
from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.plain import event_to_data
from dppipe.sampling import FullBatch, Poisson, Shuffle, TruncatedPoisson, User


class Following(Constant):
    """Noise that follows released values."""

    adaptive: ClassVar[bool] = True

    def next_multiplier(self, history: Sequence[float]) -> float:
        return 1.0


PARTS = PrivateParts(
    Poisson(sample_rate=0.01),
    Flat(),
    Constant(noise_multiplier=2.0),
    Rdp(),
    Budget(epsilon=2.0, delta=1e-6),
)
GROWING = Poisson(sample_rate=0.01, batch_schedule=schedules.Linear(end=3.0))
SHRINKING = Flat(bound_schedule=schedules.Linear(end=0.5))
STATISTICS = PrivateScaling(noise_multiplier=50.0)


def planned(parts: PrivateParts = PARTS, **length: Any) -> StepPlan:
    made = plan_privacy(parts, name="t", records=10_000, **length or {"steps": 20})
    return StepPlan.from_json(made.to_json())


def compare(plan: StepPlan, parts: PrivateParts = PARTS) -> None:
    refuse_other_parts(plan, parts, holdout="private", reproducible=False)


def differing_fields(plan: StepPlan, parts: PrivateParts = PARTS) -> set[str]:
    with pytest.raises(PrivacyRefusal) as refused:
        compare(plan, parts)
    lines = str(refused.value).splitlines()[1:]
    assert all(": expected " in line and ", got " in line for line in lines)
    return {line.partition(":")[0].removeprefix("plan.") for line in lines}


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"noise": Constant()},
        {"noise": Constant(secure=True)},
        {"noise": Constant(noise_multiplier=20.0, mechanism="laplace"), "accountant": Pld()},
        {"noise": Exponential(end=0.5)},
        {"noise": Linear(noise_multiplier=2.0, end=0.5)},
        {"noise": Dynamic(noise_multiplier=5.0)},
        {"noise": Following(noise_multiplier=20.0)},
        {"sampler": GROWING},
        {"sampler": Shuffle(expected_batch_size=100), "noise": Linear(end=0.5)},
        {"sampler": FullBatch(), "noise": Constant()},
        {"sampler": User(sample_rate=0.01, max_records_per_user=3)},
        {"clipping": SHRINKING},
        {"clipping": Adaptive()},
        {"preludes": (STATISTICS,)},
        {"accountant": Pld()},
        {"budget": None},
    ],
    ids=lambda parts: "-".join(f"{name}" for name in parts) or "as they are",
)
def test_a_plan_equals_the_parts_that_it_was_made_from(parts: dict[str, Any]) -> None:
    own = replace(PARTS, **parts)
    compare(planned(own), own)


def test_a_plan_until_the_budget_is_spent_equals_its_parts() -> None:
    made = planned(steps=None)
    assert made.ends_at == "budget"
    compare(made)


def test_a_schedule_that_the_budget_cuts_short_equals_its_parts() -> None:
    own = replace(PARTS, noise=Linear(noise_multiplier=1.0, end=0.5))
    made = planned(own, steps=400)
    assert made.ends_at == "budget"
    compare(made, own)


def test_a_plan_that_counts_earlier_runs_equals_parts_without_them() -> None:
    event = event_to_data(PoissonSampledDpEvent(0.01, GaussianDpEvent(2.0)))
    run = EarlierRun(
        run="a",
        run_dir="runs/a",
        ledger_head="00",
        relation="zero_out",
        unit="example",
        events=(ChargedEvent(event=event, count=20),),
    )
    earlier = Earlier(records="same", runs=(run,))
    compare(planned(replace(PARTS, earlier=earlier)))


@pytest.mark.parametrize(
    ("parts", "fields"),
    [
        ({"sampler": Poisson(sample_rate=0.02)}, {"sample_rate", "expected_batch_size"}),
        ({"sampler": TruncatedPoisson(expected_batch_size=100)}, {"sampler"}),
        ({"sampler": Shuffle(expected_batch_size=100)}, {"sampler", "epochwise"}),
        ({"sampler": User(sample_rate=0.01, max_records_per_user=3)}, {"max_records_per_user"}),
        ({"sampler": GROWING}, {"batches"}),
        ({"clipping": Flat(max_grad_norm=0.5)}, {"max_grad_norm"}),
        ({"clipping": SHRINKING}, {"bounds"}),
        ({"clipping": Adaptive()}, {"clipping", "statistics_std"}),
        ({"noise": Constant(noise_multiplier=1.9)}, {"noise"}),
        ({"noise": Linear(noise_multiplier=2.0, end=0.5)}, {"noise"}),
        ({"noise": Linear(end=0.5)}, {"noise"}),
        ({"noise": Following(noise_multiplier=2.0)}, {"schedule"}),
        ({"noise": Constant(noise_multiplier=2.0, mechanism="laplace")}, {"mechanism"}),
        ({"noise": Constant(noise_multiplier=2.0, secure=True)}, {"secure"}),
        ({"accountant": Pld()}, {"accountant"}),
        ({"preludes": (STATISTICS,)}, {"releases"}),
        ({"budget": None}, {"private", "budget_epsilon", "delta", "relation"}),
        ({"budget": Budget(epsilon=1.0, delta=1e-6)}, {"budget_epsilon"}),
        ({"budget": Budget(epsilon=2.0, delta=1e-7)}, {"delta"}),
        ({"budget": Budget(epsilon=2.0, delta=1e-6, relation="replace_one")}, {"relation"}),
        ({"budget": Budget(epsilon=2.0, delta=1e-6, unit="user")}, {"unit"}),
        ({"budget": Budget(epsilon=2.0, delta=1e-6, scope="clinic")}, {"scope"}),
    ],
    ids=lambda value: "-".join(sorted(value)),
)
def test_a_part_that_differs_from_the_plan_is_named(
    parts: dict[str, Any], fields: set[str]
) -> None:
    assert fields <= differing_fields(planned(), replace(PARTS, **parts))


@pytest.mark.parametrize(
    "others",
    [
        (),
        (PrivateScaling(noise_multiplier=40.0),),
        (PrivateScaling(noise_multiplier=60.0),),
        (PrivateScaling(noise_multiplier=50.0, bins=4),),
        (STATISTICS, STATISTICS),
    ],
    ids=["none", "less noise", "more noise", "histograms", "twice"],
)
def test_a_plan_of_other_statistics_is_refused(others: tuple[PrivateScaling, ...]) -> None:
    made = planned(replace(PARTS, preludes=(STATISTICS,)))
    assert "releases" in differing_fields(made, replace(PARTS, preludes=others))


def test_all_differing_fields_are_named_at_once() -> None:
    others = replace(
        PARTS,
        sampler=Poisson(sample_rate=0.02),
        clipping=Flat(max_grad_norm=0.5),
        accountant=Pld(),
    )
    fields = differing_fields(planned(), others)
    assert {"sample_rate", "max_grad_norm", "accountant"} <= fields


def test_another_holdout_and_a_public_seed_are_refused() -> None:
    with pytest.raises(PrivacyRefusal, match=r"plan\.holdout: expected 'public', got 'private'"):
        refuse_other_parts(planned(), PARTS, holdout="public", reproducible=False)
    with pytest.raises(PrivacyRefusal, match=r"plan\.reproducible: expected True, got False"):
        refuse_other_parts(planned(), PARTS, holdout="private", reproducible=True)


def test_a_plan_under_add_remove_is_refused_by_parts_that_know_the_number_of_records() -> None:
    sampler = Poisson(sample_rate=0.01, expected_batch_size=100)
    secret = Budget(epsilon=2.0, delta=1e-6, relation="add_remove")
    made = planned(replace(PARTS, sampler=sampler, budget=secret))
    assert differing_fields(made) == {"relation"}


def test_a_plan_whose_noise_is_too_small_for_its_epsilon_is_refused() -> None:
    own = replace(PARTS, noise=Constant())
    forged = planned(own).model_copy(update={"noise": (NoiseRun(noise_multiplier=0.5, steps=20),)})
    assert differing_fields(StepPlan.from_json(forged.to_json()), own) == {"epsilon"}


def test_a_plan_whose_curve_ends_below_its_cost_is_refused() -> None:
    forged = planned().model_copy(update={"curve": (CurvePoint(step=20, epsilon=0.01),)})
    assert differing_fields(forged) == {"epsilon"}


@pytest.mark.parametrize(
    "noise", [Constant(noise_multiplier=2.0), Following(noise_multiplier=20.0)]
)
def test_a_plan_that_leaves_less_to_attackers_than_its_steps_is_refused(
    noise: Constant | Following,
) -> None:
    own = replace(PARTS, noise=noise)
    honest = planned(own)
    assert honest.attack_limits is not None
    lower = honest.attack_limits.model_copy(update={"advantage": 0.01})
    forged = honest.model_copy(update={"attack_limits": lower})
    assert differing_fields(forged, own) == {"attack_limits"}
    compare(honest.model_copy(update={"attack_limits": None}), own)  # as of an earlier version


def test_a_plan_without_noise_for_every_step_is_refused() -> None:
    forged = planned().model_copy(update={"noise": ()})
    assert differing_fields(forged) == {"noise"}


def test_a_plan_that_only_estimates_is_refused() -> None:
    forged = planned().model_copy(update={"certified": False})
    assert differing_fields(forged) == {"certified"}
