"""The statement says what is promised, never more, and what it leaves out."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.claims import guarantee_sentences, shown, shown_delta
from dppipe.privacy.statement import Course, Statement
from dppipe.privacy.statement_text import statement_text

COURSE = Course(steps=140, sample_rate=(0.1, 0.1), noise_multiplier=(1.5, 3.0), max_grad_norm=(1.0, 1.0))
MADE = Statement(
    name="digits",
    status="completed",
    private=True,
    reproducible=False,
    unit="example",
    relation="zero_out",
    records=1437,
    epsilon=2.99934,
    epsilon_spent=2.99934,
    budget_epsilon=3.0,
    delta=1e-5,
    curve={"deltas": [1e-4, 1e-6], "epsilons": [2.5, 3.5]},
    accountant="pld",
    certified=True,
    planned=COURSE,
    executed=COURSE,
    evaluation_looks=7,
    versions={"dppipe": "0.1.0", "dp-accounting": "0.6.0"},
    config_hash="c0ffee",
    ledger_head="1edge5",
)


def changed(**changes: Any) -> Statement:
    return dataclasses.replace(MADE, **changes)


def test_the_guarantee_stands_on_top_in_two_sentences() -> None:
    lines = statement_text(MADE).splitlines()
    assert lines[0] == "# Privacy of digits"
    assert "(3, 1e-05)-differentially private" in lines[2]
    assert "one example" in lines[2]
    assert "20.1 times" in lines[3]


def test_epsilon_is_rounded_up_everywhere() -> None:
    data = changed(epsilon=1.000001, epsilon_spent=0.50001).to_data()
    assert data["epsilon"] == 1.001
    assert data["epsilon_spent"] == 0.5001
    assert "(1.001, 1e-05)" in data["guarantee"][0]


@given(epsilon=st.floats(1e-4, 1e3))
def test_a_printed_epsilon_is_never_below_the_computed_one(epsilon: float) -> None:
    assert float(shown(epsilon)) >= epsilon


def test_the_machine_readable_form_is_json_and_whole() -> None:
    data = json.loads(json.dumps(MADE.to_data(), allow_nan=False))
    for name in ("unit", "relation", "epsilon", "delta", "curve", "accountant", "accountant_version", "certified", "sampler",
                 "schedule", "planned", "executed", "released", "not_covered", "noise_level", "seeded", "versions", "config_hash",
                 "ledger_head", "evaluation_looks", "assumptions", "guarantee", "protects"):  # fmt: skip
        assert name in data
    assert set(data["not_covered"]) >= {"holdout", "diagnostics", "timing", "earlier_runs_and_tuning"}
    assert data["protects"] is True


def test_the_text_names_what_is_not_covered() -> None:
    text = statement_text(MADE)
    for words in ("7 times", "nonprivate/val/", "How long a step", "hyper-parameters", "central model", "1437", "1.5 to 3"):
        assert words in text


def test_a_run_without_a_budget_is_not_private() -> None:
    made = Statement(name="plain", status="completed", private=False, reproducible=False, unit="example")
    text = statement_text(made)
    assert "NOT PRIVATE" in text
    assert "differentially private" not in text
    assert made.to_data()["protects"] is False
    json.dumps(made.to_data(), allow_nan=False)


def test_a_seeded_run_gives_no_protection() -> None:
    made = changed(reproducible=True)
    assert "gives no protection: seeded" in statement_text(made)
    assert not made.protects
    assert made.to_data()["seeded"] is True


def test_an_estimate_is_called_one() -> None:
    made = changed(certified=False)
    text = statement_text(made)
    assert "ESTIMATE" in made.guarantee()[0]
    assert "ESTIMATE" in text
    assert "certified: a proven upper bound" not in text
    assert not made.protects


def test_an_infinite_epsilon_is_no_privacy() -> None:
    made = changed(epsilon=math.inf)
    assert "NOT PRIVATE" in made.guarantee()[0]
    assert made.to_data()["epsilon"] is None
    json.dumps(made.to_data(), allow_nan=False)


def test_the_number_of_records_stays_secret_under_add_remove() -> None:
    with pytest.raises(PrivacyRefusal, match="records"):
        changed(relation="add_remove")
    text = statement_text(changed(relation="add_remove", records=None))
    assert "1437" not in text
    assert "number of records is secret" in text
    assert "The number of records is public" not in text


@pytest.mark.parametrize("missing", ["epsilon", "delta", "relation", "accountant"])
def test_a_private_claim_needs_its_numbers(missing: str) -> None:
    with pytest.raises(PrivacyRefusal):
        changed(**{missing: None})


def test_nan_is_never_stated() -> None:
    with pytest.raises(PrivacyRefusal, match="NaN"):
        changed(epsilon=math.nan)


@pytest.mark.parametrize(("epsilon", "tier"), [(0.9, "strong"), (3.0, "reasonable"), (30.0, "weak"), (5000.0, "weak")])
def test_the_size_of_epsilon_is_put_in_words(epsilon: float, tier: str) -> None:
    _, second = guarantee_sentences(epsilon=epsilon, delta=1e-5, relation="zero_out")
    assert f"{tier} protection" in second


@pytest.mark.parametrize("holdout", ["public", "private", "none"])
def test_holdouts_are_described(holdout: Any) -> None:
    said = changed(holdout=holdout, evaluation_looks=1).not_covered()["holdout"]
    assert ("once" in said) == (holdout == "private")


def test_a_filter_is_named_as_such() -> None:
    assert "filter admitted each step" in statement_text(changed(schedule="filter"))
    assert "fixed before any record was read" in statement_text(MADE)


def test_no_delta_is_shown_below_what_it_is() -> None:
    for delta in (1.2345641e-5, 1.2345678e-5, 1e-5, 9.999999e-7):
        said = " ".join(guarantee_sentences(epsilon=1.0, delta=delta, relation="zero_out"))
        assert f"(1, {shown_delta(delta)})-differentially" in said
        assert f"a probability of {shown_delta(delta)}:" in said
        assert delta <= float(shown_delta(delta)) <= delta * (1 + 1e-5)
    assert shown_delta(1e-5) == "1e-05"
