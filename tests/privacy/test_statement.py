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
from dppipe.planning.data_source import DataSource
from dppipe.planning.step_plan import NoiseRun, StepPlan
from dppipe.planning.step_runs import CurvePoint
from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.statement.assumptions import assumptions
from dppipe.runs.statement.claims import guarantee_sentences
from dppipe.runs.statement.comparisons import comparison
from dppipe.runs.statement.data import statement_data
from dppipe.runs.statement.exclusions import not_covered
from dppipe.runs.statement.releases import released
from dppipe.runs.statement.statement import Files, Statement
from dppipe.runs.statement.step_ranges import planned_ranges
from dppipe.runs.statement.text import statement_text

PLAN = StepPlan(
    name="digits",
    private=True,
    records=1437,
    steps=140,
    ends_at="steps",
    steps_per_epoch=10,
    sampler="poisson",
    sample_rate=0.1,
    expected_batch_size=143.7,
    empty_batch_probability=0.0,
    largest_likely_batch=200,
    clipping="flat",
    max_grad_norm=1.0,
    mechanism="gaussian",
    noise=(NoiseRun(noise_multiplier=3.0, steps=70), NoiseRun(noise_multiplier=1.5, steps=70)),
    relation="zero_out",
    unit="example",
    scope=None,
    budget_epsilon=3.0,
    delta=1e-5,
    accountant="pld",
    certified=True,
    epsilon=2.99934,
    curve=(CurvePoint(step=140, epsilon=2.99934),),
    whole_curve={"deltas": [1e-4, 1e-6], "epsilons": [2.5, 3.5]},
    holdout="private",
    diagnostics="off",
    split="position",
    reproducible=False,
    spec_hash="5bec",
    committed_hash="5bec",
    plugins={},
)
MADE = Statement(
    plan=PLAN,
    status="completed",
    epsilon_spent=2.99934,
    executed=planned_ranges(PLAN),
    validation_looks=7,
    versions={"dppipe": "0.1.0", "dp-accounting": "0.6.0"},
    config_hash="c0ffee",
    ledger_head="1edge5",
)
WHOLE = (
    "unit",
    "relation",
    "epsilon",
    "delta",
    "curve",
    "accountant",
    "accountant_version",
    "certified",
    "sampler",
    "schedule",
    "planned",
    "executed",
    "released",
    "not_covered",
    "noise_level",
    "seeded",
    "versions",
    "config_hash",
    "ledger_head",
    "evaluation_looks",
    "assumptions",
    "guarantee",
    "protects",
)
"""Fields that a machine-readable statement must have."""


def changed(**changes: Any) -> Statement:
    """Change fields of the statement or of its plan, by their names."""
    planned = {name: changes.pop(name) for name in list(changes) if name in StepPlan.model_fields}
    return dataclasses.replace(MADE, plan=PLAN.model_copy(update=planned), **changes)


def test_the_guarantee_stands_on_top_in_two_sentences() -> None:
    lines = statement_text(MADE).splitlines()
    assert lines[0] == "# Privacy of digits"
    assert "(3, 1e-05)-differentially private" in lines[2]
    assert "one example" in lines[2]
    assert "20.1 times" in lines[3]


def test_epsilon_is_rounded_up_everywhere() -> None:
    data = statement_data(changed(epsilon=1.000001, epsilon_spent=0.50001))
    assert data["epsilon"] == 1.001
    assert data["epsilon_spent"] == 0.5001
    assert "(1.001, 1e-05)" in data["guarantee"][0]


@given(epsilon=st.floats(1e-4, 1e3))
def test_a_printed_epsilon_is_never_below_the_computed_one(epsilon: float) -> None:
    assert float(shown(epsilon)) >= epsilon


def test_the_machine_readable_form_is_json_and_whole() -> None:
    data = json.loads(json.dumps(statement_data(MADE), allow_nan=False))
    for name in WHOLE:
        assert name in data
    assert set(data["not_covered"]) >= {
        "holdout",
        "diagnostics",
        "timing",
        "earlier_runs_and_tuning",
    }
    assert data["protects"] is True


def test_the_text_names_what_is_not_covered() -> None:
    text = statement_text(MADE)
    for words in (
        "7 times",
        "nonprivate/val/",
        "How long a step",
        "hyper-parameters",
        "central model",
        "1437",
        "1.5 to 3",
    ):
        assert words in text


def test_a_run_without_a_budget_is_not_private() -> None:
    nothing = {"epsilon": None, "delta": None, "relation": None, "accountant": None}
    made = changed(private=False, certified=False, noise=(), curve=(), **nothing)
    text = statement_text(made)
    assert "NOT PRIVATE" in text
    assert "differentially private" not in text
    assert statement_data(made)["protects"] is False
    json.dumps(statement_data(made), allow_nan=False)


def test_a_seeded_run_gives_no_protection() -> None:
    made = changed(reproducible=True)
    assert "gives no protection: seeded" in statement_text(made)
    assert not made.protects
    assert statement_data(made)["seeded"] is True


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
    assert statement_data(made)["epsilon"] is None
    json.dumps(statement_data(made), allow_nan=False)


def test_the_number_of_records_stays_secret_under_add_remove() -> None:
    with pytest.raises(PrivacyRefusal, match="records"):
        changed(relation="add_remove")
    text = statement_text(changed(relation="add_remove", records=None, split="hash"))
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


@pytest.mark.parametrize("epsilon", [0.9, 3.0, 30.0, 5000.0])
def test_no_judgement_is_passed_on_the_size_of_epsilon(epsilon: float) -> None:
    said = " ".join(guarantee_sentences(epsilon=epsilon, delta=1e-5, relation="zero_out"))
    for word in ("strong", "reasonable", "weak", "protection"):
        assert word not in said


@pytest.mark.parametrize("holdout", ["public", "private", "none"])
def test_holdouts_are_described(holdout: Any) -> None:
    made = changed(holdout=holdout, validation_looks=1)
    if holdout == "none":
        made = changed(validates=False, validation_looks=0)
    said = not_covered(made)["holdout"]
    assert ("once" in said) == (holdout != "none")
    assert ("nonprivate/" in said) == (holdout == "private")


def test_a_filter_is_named_as_such() -> None:
    assert "filter admitted each step" in statement_text(changed(schedule="filter"))
    assert "fixed before the first release" in statement_text(MADE)


def test_no_delta_is_shown_below_what_it_is() -> None:
    for delta in (1.2345641e-5, 1.2345678e-5, 1e-5, 9.999999e-7):
        said = " ".join(guarantee_sentences(epsilon=1.0, delta=delta, relation="zero_out"))
        assert f"(1, {shown_delta(delta)})-differentially" in said
        assert said.endswith(f"a probability of {shown_delta(delta)}.")
        assert delta <= float(shown_delta(delta)) <= delta * (1 + 1e-5)
    assert shown_delta(1e-5) == "1e-05"


def test_a_seeded_run_is_not_called_certified() -> None:
    text = statement_text(changed(reproducible=True))
    assert "| status | NO CLAIM: sampler and noise were seeded |" in text
    assert "certified" not in text


def test_a_split_by_position_under_add_remove_leaves_no_claim() -> None:
    made = changed(relation="add_remove", records=None, split="position")
    assert made.guarantee()[0].startswith("NO CLAIM")
    assert not made.protects
    assert changed(relation="add_remove", records=None, split="hash").protects
    assert changed(split="position").protects


def test_only_files_that_exist_are_called_released() -> None:
    assert released(changed()) == (
        "The weights after every step, and so any checkpoint that was made of them.",
    )
    assert "final.ckpt" in " ".join(released(changed(files=Files(final_weights=True))))
    assert released(changed(status="failed", files=Files(final_weights=True))) == ()


def test_a_file_that_refuses_bad_records_is_named() -> None:
    refusing = DataSource(kind="csv", files=("a.csv",), on_bad_record="refuse")
    assert "bad_records" in not_covered(changed(data=refusing))
    dropping = refusing.model_copy(update={"on_bad_record": "drop"})
    assert "bad_records" not in not_covered(changed(data=dropping))
    assert "| data | csv: `a.csv` |" in statement_text(changed(data=dropping))


def test_an_epsilon_is_compared_with_add_remove_only_where_there_is_a_proof() -> None:
    assert "the same number under add_remove" in str(comparison(MADE))
    assert "no proof under add_remove" in str(comparison(changed(sampler="shuffle")))
    assert "no proof under add_remove" in str(comparison(changed(averages=True)))
    assert comparison(changed(reproducible=True)) is None


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_noise_on_averages_is_described_as_the_relation_has_it(relation: Any) -> None:
    said = " ".join(assumptions(changed(averages=True, relation=relation)))
    assert ("noise is scaled to twice the bound" in said) == (relation == "zero_out")
    assert ("the accountant counts twice the bound" in said) == (relation == "replace_one")


def test_a_statement_repeats_no_field_of_its_plan() -> None:
    stated = {field.name for field in dataclasses.fields(Statement)}
    assert stated & set(StepPlan.model_fields) == set()
