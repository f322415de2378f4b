"""What every event's rule keeps, over all that are found: a new one is tested by being there."""

from __future__ import annotations

import importlib
import json
import math
from typing import Any

import dp_accounting
import pytest

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.events.base import event_names, multiplier_of, noise_multiplier, rule_named
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.events.sequences import merge
from dppipe.privacy.proofs import ACCOUNTANTS, EVERY_RELATION

BY_FORM: dict[str, Any] = {
    "float": 0.7,
    "share": 0.05,
    "shape": 1.0,
    "int": 20,
    "floats": [0.2, 0.8],
    "event": {"type": "GaussianDpEvent", "noise_multiplier": 3.0},
    "events": [{"type": "GaussianDpEvent", "noise_multiplier": 3.0}, {"type": "NoOpDpEvent"}],
}
"""A value for each form of field."""
OTHERWISE: dict[str, Any] = {"source_dataset_size": 100, "dataset_size": 100, "mean": 4.0}
"""Fields that have to fit to others."""
NAMES = event_names()


def data_of(name: str) -> dict[str, Any]:
    fields = rule_named(name).fields
    values = {field: OTHERWISE.get(field, BY_FORM[form]) for field, form in fields.items()}
    return {"type": name, **values}


def accountant(kind: str) -> Accountant:
    module = importlib.import_module(f"dppipe.privacy.accountants.{kind}")
    made: Accountant = getattr(module, kind.capitalize())()
    return made


@pytest.fixture(params=NAMES)
def event(request: pytest.FixtureRequest) -> dp_accounting.DpEvent:
    return event_from_data(data_of(request.param))


def test_an_event_goes_through_json_and_back(event: dp_accounting.DpEvent) -> None:
    text = json.dumps(event_to_data(event), allow_nan=False)
    assert event_from_data(json.loads(text)) == event
    assert len({event, event_from_data(json.loads(text))}) == 1


def test_a_canonical_event_stays_as_it_is(event: dp_accounting.DpEvent) -> None:
    canonical = merge([(event, 2)])
    assert merge(list(canonical.items())) == canonical
    for part in canonical:
        rule = rule_named(type(part).__name__)
        assert rule.parts is None or rule.parts(part) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, "1", None, True])
@pytest.mark.parametrize("name", NAMES)
def test_an_event_with_a_field_that_is_no_number_is_refused(name: str, bad: Any) -> None:
    rule = rule_named(name)
    for field, form in rule.fields.items():
        if form in ("event", "events", "floats") or (form == "shape" and bad == math.inf):
            continue
        with pytest.raises(PrivacyRefusal):
            event_from_data(data_of(name) | {field: bad})


def test_accountants_do_what_the_proofs_of_an_event_say(event: dp_accounting.DpEvent) -> None:
    counts = merge([(event, 2)])
    for kind in ACCOUNTANTS:
        for relation in EVERY_RELATION:
            proofs = []
            for part in counts:
                rule = rule_named(type(part).__name__)
                proofs.append(rule.proof(kind, part, relation=relation))
            if None in proofs:
                with pytest.raises(PrivacyRefusal, match=f"^accountant {kind}: no proof for "):
                    accountant(kind).compose([(event, 2)], relation=relation)
                continue
            composed = accountant(kind).compose([(event, 2)], relation=relation)
            estimates = [proof for proof in proofs if proof is not None and proof.estimate]
            assert composed.certified == (not estimates)
            assert composed.epsilon(0.5) >= 0
            assert (composed.delta(0.0) > 0) == bool(counts)


def test_more_of_an_event_never_costs_less(event: dp_accounting.DpEvent) -> None:
    for kind in ACCOUNTANTS:
        for relation in EVERY_RELATION:
            try:
                costs = accountant(kind).curve(
                    [(event, 4)], [1, 2, 4], delta=0.3, relation=relation
                )
            except PrivacyRefusal:
                continue
            assert costs == sorted(costs)


def test_a_noise_multiplier_is_a_number_or_refused(event: dp_accounting.DpEvent) -> None:
    if multiplier_of(event) is None:
        with pytest.raises(PrivacyRefusal, match="noise multiplier"):
            noise_multiplier(event)
    else:
        assert noise_multiplier(event) == multiplier_of(event)


def test_an_event_that_may_be_rounded_comes_back_from_its_numbers(
    event: dp_accounting.DpEvent,
) -> None:
    for part in merge([(event, 1)]):
        rule = rule_named(type(part).__name__)
        numbers = rule.numbers(part) if rule.numbers is not None else None
        if numbers is None:
            continue
        assert rule.with_numbers is not None
        assert rule.with_numbers(part, numbers) == part
        less = rule.with_numbers(part, numbers._replace(noise=numbers.noise / 2))
        assert rule.numbers is not None
        assert rule.numbers(less) == numbers._replace(noise=numbers.noise / 2)
