"""Rules that span blocks: what they let through, and that a secret number of records is never asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import dppipe
from dppipe.data.base import Data
from dppipe.data.digits import Digits
from dppipe.errors import PrivacyRefusal, SpecError, UsageError
from dppipe.spec import spec_from_text
from dppipe.spec.rules.between_blocks import check_rules, find_proof

PLUGINS = Path(dppipe.__file__).parents[1] / "plugins"
ADD_REMOVE = [
    "budget.relation=add_remove",
    "sampler={kind: poisson, sample_rate: 0.01, expected_batch_size: 14}",
]


def test_add_remove_needs_both_rates_and_takes_them(base: str) -> None:
    spec = spec_from_text(base, overrides=ADD_REMOVE)
    assert check_rules(spec) == []


def test_a_secret_number_of_records_is_never_asked_for(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(self: Data) -> int:
        raise AssertionError("asked")

    monkeypatch.setattr(Digits, "count", count)
    spec_from_text(base, overrides=ADD_REMOVE)
    with pytest.raises(AssertionError):
        spec_from_text(base)


def test_a_delta_is_held_against_the_public_ratio_where_the_number_is_secret(base: str) -> None:
    with pytest.raises(
        SpecError, match=r"budget\.delta: expected less than 1/records = 0\.000714, got 0\.001"
    ):
        spec_from_text(base, overrides=[*ADD_REMOVE, "budget.delta=1e-3"])


def test_a_delta_just_below_one_over_n_is_accepted(base: str) -> None:
    n = spec_from_text(base).data.train_count()
    spec_from_text(base, overrides=[f"budget.delta={0.999 / n!r}"])
    with pytest.raises(SpecError, match=r"budget\.delta: expected less than 1/records"):
        spec_from_text(base, overrides=[f"budget.delta={1 / n!r}"])


def test_full_batch_is_private_gradient_descent(base: str) -> None:
    assert spec_from_text(base, overrides=["sampler=full_batch"]).sampler.kind == "full_batch"


def test_a_number_until_the_budget_is_a_plan(base: str) -> None:
    spec = spec_from_text(base, overrides=["train={until: budget}", "noise.noise_multiplier=1.1"])
    assert spec.train.until == "budget"


def test_a_schedule_needs_a_last_step(base: str) -> None:
    with pytest.raises(
        SpecError,
        match=r"train\.until: expected steps or epochs, got until: budget\. The noise schedule 'linear'",
    ):
        spec_from_text(
            base, overrides=["train={until: budget}", "noise={kind: linear, noise_multiplier: 1.1}"]
        )


def test_no_budget_leaves_the_other_blocks_validated(base: str) -> None:
    spec = spec_from_text(base, overrides=["budget=none"])
    assert not spec.private
    assert find_proof(spec) is None
    with pytest.raises(SpecError, match="no clipper named"):
        spec_from_text(base, overrides=["budget=none", "clipping=flatt"])
    with pytest.raises(SpecError, match=r"There is no budget"):
        spec_from_text(base, overrides=["budget=none", "train={until: budget}"])


@pytest.mark.parametrize("word", ["None", "null", "", "~", "0", "unlimited"])
def test_only_the_word_none_turns_privacy_off(word: str, base: str) -> None:
    with pytest.raises(SpecError, match="budget: expected a block"):
        spec_from_text(base, overrides=[f"budget={word}"])


def test_a_pair_without_proof_is_refused_for_privacys_sake(base: str) -> None:
    with pytest.raises(
        PrivacyRefusal, match=r"^spec\.yaml:12:20: accountant\.kind: expected a pair with a proof"
    ) as caught:
        spec_from_text(
            base.replace("1.0e-5}", "1.0e-5, relation: replace_one}").replace("pld", "rdp")
        )
    assert not isinstance(caught.value, UsageError)


def test_a_bound_that_may_fail_is_refused_at_validation_where_no_delta_is_left_for_it(
    base: str,
) -> None:
    failing = ["clipping={kind: jl, delta: 1.0e-6}"]
    spec_from_text(base, overrides=failing)
    with pytest.raises(PrivacyRefusal, match="can't fail with a shared budget"):
        spec_from_text(base, overrides=[*failing, "budget.scope=clinic"])
    follows = ["noise={kind: budget_aware, noise_multiplier: 4.0}", "accountant=rdp"]
    with pytest.raises(PrivacyRefusal, match="can't fail with the schedule 'budget_aware'"):
        spec_from_text(base, overrides=[*failing, *follows], plugins=PLUGINS)
    with pytest.raises(
        PrivacyRefusal, match=r"clipping\.delta: expected less than budget\.delta = 1e-05"
    ):
        spec_from_text(base, overrides=["clipping={kind: jl, delta: 1.0e-5}"])


def test_data_that_cannot_be_counted_is_a_problem_of_the_data(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(self: Data) -> int:
        raise UsageError("digits.csv: expected a file, got nothing.")

    monkeypatch.setattr(Digits, "count", count)
    with pytest.raises(
        SpecError, match=r"spec\.yaml:4:7: data: digits\.csv: expected a file, got nothing\."
    ):
        spec_from_text(base)


def test_a_default_that_follows_from_a_wrong_value_is_not_reported(base: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_from_text(base, overrides=["data={kind: synthetic, classes: 0}"])
    assert [problem.path for problem in caught.value.problems] == [("data", "classes")]


def test_a_sampler_without_a_proof_is_reported_once(base: str) -> None:
    text = base.replace("kind: poisson", "kind: truncated_poisson").replace(
        "1.0e-5}", "1.0e-5, relation: add_remove}"
    )
    with pytest.raises(PrivacyRefusal) as caught:
        spec_from_text(text)
    assert str(caught.value).count("spec.yaml:") == 1


def test_a_run_without_training_records_is_refused(base: str) -> None:
    with pytest.raises(SpecError, match=r"data\.split: expected at least one training record"):
        spec_from_text(
            base,
            overrides=["data={kind: synthetic, size: 1, split: {train: 0.1, val: 0, test: 0}}"],
        )
