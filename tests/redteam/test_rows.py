"""Rows that see each other, and randomness by place: one record moves the sum by one bound, whatever others there are."""

from __future__ import annotations

import pytest
from redteam import modules, texts
from redteam.facts import describe
from redteam.neighbours import augmented_pair, pair
from redteam.records import HARMFUL
from redteam.running import Case, Command, Fit, assert_indistinguishable, distinguish, observe

pytestmark = pytest.mark.sampled(2)

RELATIONS = ["zero_out", "add_remove", "replace_one"]


@pytest.mark.parametrize(
    ("module", "collate", "harmful"),
    [
        pytest.param(
            texts.DividingByTokens, None, "longest", id="item4-loss-over-the-batchs-tokens"
        ),
        pytest.param(texts.SeeingPadding, None, "longest", id="item4-padding-that-the-model-sees"),
        pytest.param(
            texts.Sorting, None, "longest", id="item4-rows-sorted-by-length-between-layers"
        ),
        pytest.param(
            texts.Reading,
            texts.pad_to_longest,
            "longest",
            id="item4-collate-that-pads-to-the-longest",
        ),
        pytest.param(
            texts.SeeingPadding,
            texts.pad_to_longest,
            "longest",
            id="item4-collate-pads-and-the-model-sees-it",
        ),
        pytest.param(texts.Reading, texts.mix_rows, "large", id="item4-collate-that-mixes-rows"),
    ],
)
def test_a_record_does_not_move_the_rows_of_others(module, collate, harmful, tmp_path):
    run = Fit(module, collate=collate)
    assert_indistinguishable(
        Case(run, lambda: pair(harmful, sentences=True), completes=False), tmp_path
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("module", [modules.Dropping, modules.DroppingInSteps])
def test_dropout_is_secret_item5(module, relation, tmp_path):
    assert_indistinguishable(
        Case(Fit(module), lambda: pair("large", relation, keeps_row=True)), tmp_path
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_dropout_of_a_spec_is_secret_item5(relation, tmp_path):
    run = Command(("model={class_path: redteam.modules.Net, init_args: {p: 0.5}}",))
    assert_indistinguishable(
        Case(run, lambda: pair("large", relation, keeps_row=True, tensors=True)), tmp_path
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_augmentation_is_secret_item5(relation, tmp_path):
    assert_indistinguishable(
        Case(Fit(modules.Offering), lambda: augmented_pair(relation)), tmp_path
    )


def test_dropout_hangs_on_a_secret_key_item5(tmp_path):
    """With other keys for everything but the draws, the same records give another un-noised sum."""
    data = pair("large").first
    sums = []
    for salt in ("one", "two"):
        (tmp_path / salt).mkdir()
        seen = observe(
            Fit(modules.Dropping),
            data,
            tmp_path / salt,
            relation="zero_out",
            salt=salt,
            salted=("model",),
        )
        sums.append(seen.trace.releases[0].before)
    assert not sums[0].equal(sums[1]), "dropout is the same whatever the secret keys are"


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_record_does_not_change_which_others_are_trained_on_item5(relation, tmp_path):
    """At several places, as far as the split puts the record there among those that are trained on."""
    tried = 0
    for at in (1, 4, 7, 12):
        (tmp_path / str(at)).mkdir()
        case = Case(
            Command(), lambda at=at: pair("large", relation, with_val=False, at=at), completes=False
        )
        verdict = distinguish(case, tmp_path / str(at))
        if repr(describe(HARMFUL["large"])) not in verdict.units:
            continue
        if verdict.differences:
            pytest.fail(verdict.report(), pytrace=False)
        tried += 1
    assert tried, "the record was never among those that are trained on"
