"""Bounds of several releases together: a certificate only where each of them has one."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from dppipe.errors import PrivacyRefusal
from dppipe.planning.earlier.runs import ChargedEvent, Earlier, EarlierRun, with_earlier
from dppipe.privacy.accountants.base import Accountant, Certificate, Estimate, require_certificate
from dppipe.privacy.accountants.gdp import Gdp
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.events.plain import event_to_data
from dppipe.privacy.failures import with_failure
from dppipe.privacy.parallel import with_disjoint
from dppipe.privacy.preludes import with_prelude

DELTA = 1e-5
WHOLE = GaussianDpEvent(3.0)
SAMPLED = PoissonSampledDpEvent(0.05, GaussianDpEvent(1.5))
EVENTS = {"whole": WHOLE, "sampled": SAMPLED}


def proves(accountant: Accountant, *events: Any) -> bool:
    """Say whether an accountant is one that proves a bound for all of these."""
    return not isinstance(accountant, Gdp) or SAMPLED not in events


def wrapped(accountant: Accountant, way: str, event: Any) -> Accountant:
    """Return an accountant that counts one more event."""
    if way == "before":
        return with_prelude(accountant, [(event, 2)])
    return with_disjoint(accountant, accountant.compose([(event, 2)], relation="zero_out"))


@pytest.mark.parametrize("accountant", [Gdp(), Rdp(), Pld()], ids=lambda made: made.kind)
@pytest.mark.parametrize("way", ["before", "disjoint"])
@pytest.mark.parametrize(("mine", "other"), list(product(EVENTS, EVENTS)))
def test_one_estimate_makes_the_whole_an_estimate(
    accountant: Accountant,
    way: str,
    mine: str,
    other: str,
) -> None:
    both = wrapped(accountant, way, EVENTS[other])
    for made in (
        both,
        with_failure(both, 1e-6),
        wrapped(with_failure(accountant, 1e-6), way, EVENTS[other]),
    ):
        found = made.compose([(EVENTS[mine], 5)], relation="zero_out")
        wanted = Certificate if proves(accountant, EVENTS[mine], EVENTS[other]) else Estimate
        assert type(found) is wanted
        assert found.certified == (wanted is Certificate)
        if wanted is Estimate:
            with pytest.raises(PrivacyRefusal, match="got an estimate"):
                require_certificate(found)


@pytest.mark.parametrize("places", list(permutations(["mine", "before", "disjoint"])))
def test_of_three_releases_the_one_that_is_estimated_may_stand_anywhere(
    places: tuple[str, ...],
) -> None:
    at = dict(zip(places, [SAMPLED, WHOLE, WHOLE], strict=True))
    other = Gdp().compose([(at["disjoint"], 1)], relation="zero_out")
    both = with_disjoint(with_prelude(Gdp(), [(at["before"], 1)]), other)
    assert not both.compose([(at["mine"], 1)], relation="zero_out").certified
    again = with_prelude(with_disjoint(Gdp(), other), [(at["before"], 1)])
    assert not again.compose([(at["mine"], 1)], relation="zero_out").certified


@pytest.mark.parametrize("records", ["same", "disjoint"])
@pytest.mark.parametrize("which", range(2))
def test_weights_of_a_run_that_is_only_estimated_certify_nothing(records: Any, which: int) -> None:
    runs = []
    for number in range(2):
        event = SAMPLED if number == which else WHOLE
        charged = (ChargedEvent(event=event_to_data(event), count=3),)
        given = {"run": str(number), "run_dir": "r", "ledger_head": "0", "unit": "example"}
        runs.append(EarlierRun(relation="zero_out", events=charged, **given))
    for failure in (0.0, 1e-6):
        for held, certified in ((tuple(runs), False), ((runs[1 - which],), True)):
            made = with_earlier(
                Gdp(),
                Earlier(records=records, runs=held),
                before=(),
                failure=failure,
                relation="zero_out",
            )
            assert made.compose([(WHOLE, 4)], relation="zero_out").certified == certified


@pytest.mark.parametrize("accountant", [Gdp(), Rdp()], ids=lambda made: made.kind)
def test_at_every_stage_and_delta_the_larger_cost_counts(accountant: Accountant) -> None:
    for count in (1, 30):
        other = accountant.compose([(GaussianDpEvent(3.0), count)], relation="zero_out")
        both = with_disjoint(accountant, other)
        for steps in (1, 10, 100):
            own = accountant.compose([(WHOLE, steps)], relation="zero_out")
            found = both.compose([(WHOLE, steps)], relation="zero_out")
            for delta in (1e-9, 1e-5, 1e-2):
                assert found.epsilon(delta) == max(own.epsilon(delta), other.epsilon(delta))
            for epsilon in (0.1, 1.0, 5.0):
                assert found.delta(epsilon) == max(own.delta(epsilon), other.delta(epsilon))


@pytest.mark.parametrize("accountant", [Gdp(), Rdp(), Pld()], ids=lambda made: made.kind)
@pytest.mark.parametrize("way", ["before", "disjoint"])
@pytest.mark.parametrize("failure", [0.0, 1e-7, 1e-3])
def test_epsilon_and_delta_of_several_releases_are_read_from_one_curve(
    accountant: Accountant, way: str, failure: float
) -> None:
    inside = wrapped(with_failure(accountant, failure), way, WHOLE)
    outside = with_failure(wrapped(accountant, way, WHOLE), failure)
    for made in (inside, outside):
        cost = made.compose([(WHOLE, 5)], relation="zero_out")
        for epsilon in (0.1, 1.0, 4.0):
            delta = cost.delta(epsilon)
            assert failure < delta < 1
            assert cost.epsilon(delta) <= epsilon * (1 + 1e-4)
            assert cost.epsilon(delta * 0.9) > epsilon
