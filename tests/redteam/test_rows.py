"""Rows that see each other, and randomness by place: one record moves the sum by one bound, whatever others there are."""

from __future__ import annotations

import modules
import pytest
from neighbours import augmented_pair, pair
from running import Case, Command, Fit, assert_indistinguishable, observe

RELATIONS = ["zero_out", "add_remove", "replace_one"]


@pytest.mark.parametrize(
    ("module", "collate"),
    [
        pytest.param(modules.DividingByTokens, None, id="item4-loss-over-the-batchs-tokens"),
        pytest.param(modules.SeeingPadding, None, id="item4-padding-that-the-model-sees"),
        pytest.param(modules.Sorting, None, id="item4-rows-sorted-by-length-between-layers"),
        pytest.param(modules.Reading, modules.pad_to_longest, id="item4-collate-that-pads-to-the-longest"),
        pytest.param(modules.SeeingPadding, modules.pad_to_longest, id="item4-collate-that-pads-and-a-model-that-sees-it"),
        pytest.param(modules.Reading, modules.mix_rows, id="item4-mixup-in-collate"),
    ],
)
def test_a_record_does_not_move_the_rows_of_others(module, collate, tmp_path):
    run = Fit(module, collate=collate)
    assert_indistinguishable(Case(run, lambda: pair("longest", sentences=True), completes=False), tmp_path)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("module", [modules.Dropping, modules.DroppingInSteps])
def test_dropout_is_secret_item5(module, relation, tmp_path):
    assert_indistinguishable(Case(Fit(module), lambda: pair("large", relation, keeps_row=True)), tmp_path)


@pytest.mark.parametrize("relation", RELATIONS)
def test_dropout_of_a_spec_is_secret_item5(relation, tmp_path):
    run = Command(("model={class_path: modules.Net, init_args: {p: 0.5}}",))
    assert_indistinguishable(Case(run, lambda: pair("large", relation, keeps_row=True, tensors=True)), tmp_path)


@pytest.mark.parametrize("relation", RELATIONS)
def test_augmentation_is_secret_item5(relation, tmp_path):
    assert_indistinguishable(Case(Fit(modules.Offering), lambda: augmented_pair(relation)), tmp_path)


def test_dropout_hangs_on_a_secret_key_item5(tmp_path):
    """With other keys for everything but the draws, the same records give another un-noised sum."""
    data = pair("large").first
    sums = []
    for salt in ("one", "two"):
        (tmp_path / salt).mkdir()
        seen = observe(Fit(modules.Dropping), data, tmp_path / salt, relation="zero_out", salt=salt, salted=("model",))
        sums.append(seen.trace.releases[0].before)
    assert not sums[0].equal(sums[1]), "dropout is the same whatever the secret keys are"


@pytest.mark.parametrize("at", [1, 7, 12, 20])
def test_removing_a_record_changes_no_other_training_record_item5(at, tmp_path):
    case = Case(Command(), lambda: pair("large", "add_remove", with_val=False, at=at), completes=False)
    assert_indistinguishable(case, tmp_path)


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_a_split_goes_by_no_value_where_places_are_public(relation, tmp_path):
    assert_indistinguishable(Case(Command(), lambda: pair("large", relation, with_val=False, at=1), completes=False), tmp_path)
