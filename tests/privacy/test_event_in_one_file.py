"""A new event is one file: it is found, charged, certified, refused and written to a ledger."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dppipe.errors import PrivacyRefusal
from dppipe.privacy import events
from dppipe.privacy.accountants import Basic, Pld, Rdp, Zcdp
from dppipe.privacy.accountants.base import Certificate
from dppipe.privacy.charges import Charge, decode_row, digest, encode_row
from dppipe.privacy.events import base
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.rdp.curve import RenyiCurve
from dppipe.privacy.rdp.divergences import ORDERS

FILE = '''
"""A made-up mechanism whose Renyi divergence at order a is a spread^2."""

import functools

from dppipe.privacy.events.base import EventRule, make_event_class, sensitivity
from dppipe.privacy.proofs import EVERY_RELATION, Proof


@functools.cache
def event_class():
    return make_event_class("MadeUpDpEvent", ("spread",))


RULE = EventRule(
    name="MadeUpDpEvent",
    fields={"spread": "float"},
    meaning="A mechanism of this test.",
    proofs=(Proof(accountants=("rdp",), relations=EVERY_RELATION, source="by definition"),),
    event_class=event_class,
    divergences=lambda event, relation, orders: orders * (sensitivity(relation) * event.spread)**2,
)
'''


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Put the file where the built-in ones are looked for."""
    (tmp_path / "made_up.py").write_text(FILE)
    monkeypatch.setattr(events, "__path__", [*events.__path__, str(tmp_path)])
    monkeypatch.setattr(base, "_known", dict(base._known))
    importlib.invalidate_caches()
    yield importlib.import_module("dppipe.privacy.events.made_up").event_class()
    del sys.modules["dppipe.privacy.events.made_up"]


@pytest.mark.parametrize(("relation", "factor"), [("zero_out", 1), ("replace_one", 4)])
def test_rdp_certifies_it_by_its_divergences(made_up: Any, relation: Any, factor: int) -> None:
    found = Rdp().compose([(made_up(0.1), 7)], relation=relation)
    assert isinstance(found, Certificate)
    known = RenyiCurve.zero(ORDERS)
    exact = known.plus(np.asarray(ORDERS) * 0.01 * factor, 7)
    assert found.epsilon(1e-5) == pytest.approx(exact.epsilon(1e-5), rel=1e-9)
    assert found.epsilon(1e-5) >= exact.epsilon(1e-5)


@pytest.mark.parametrize("accountant", [Pld(), Zcdp(), Basic()], ids=lambda one: one.kind)
def test_others_refuse_it_and_name_the_missing_proof(made_up: Any, accountant: Any) -> None:
    expected = (
        f"accountant {accountant.kind}: no proof for MadeUpDpEvent under zero_out; rdp has one."
    )
    with pytest.raises(PrivacyRefusal) as refusal:
        accountant.compose([(made_up(0.1), 7)], relation="zero_out")
    assert str(refusal.value) == expected


def test_it_is_listed_and_its_numbers_are_checked(made_up: Any) -> None:
    assert "MadeUpDpEvent" in base.event_names()
    for bad in (0.0, -1.0, math.nan, math.inf, True, "0.1"):
        with pytest.raises(PrivacyRefusal, match=r"event\.spread"):
            Rdp().compose([(made_up(bad), 1)], relation="zero_out")
    with pytest.raises(PrivacyRefusal, match="noise multiplier"):
        base.noise_multiplier(made_up(0.1))


def test_it_goes_into_a_row_of_a_ledger_and_back(made_up: Any) -> None:
    event = made_up(0.1)
    assert event_from_data(event_to_data(event)) == event
    charge = Charge(
        step=1,
        event=event,
        mechanism="made up",
        sampler="full_batch",
        sample_rate=1.0,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        relation="zero_out",
        unit="example",
        count=1,
        epsilon=0.5,
    )
    prev = digest(b"a plan")
    line = encode_row(charge, row=1, prev=prev)
    assert b'"event":{"type":"MadeUpDpEvent","spread":0.1}' in line
    assert decode_row(line, row=1, prev=prev) == charge


def test_without_its_file_the_event_is_unknown() -> None:
    with pytest.raises(PrivacyRefusal, match="expected the fields of one of"):
        event_from_data({"type": "MadeUpDpEvent", "spread": 0.1})


@pytest.mark.parametrize("name", ["Base", "Plain", "os.path", "..base", "Made Up", ""])
def test_a_name_that_is_no_event_of_a_file_is_refused(name: str) -> None:
    assert base.find_rule(f"{name}DpEvent") is None
    assert base.find_rule(name) is None
