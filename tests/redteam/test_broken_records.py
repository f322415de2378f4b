"""A record that can't be read, collated or evaluated contributes nothing, and nobody learns that it is there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from redteam import mistakes, modules, texts
from redteam.neighbours import holdout_pair, pair, user_pair
from redteam.records import HARMFUL, HARMFUL_SENTENCES
from redteam.running import Case, Command, Fit, assert_indistinguishable, slow_but

from dppipe.clipping import AdaClip, Adaptive, Microbatch
from dppipe.sampling import Poisson, User

pytestmark = pytest.mark.sampled(3)

MODULES = {"training_step": modules.Ordinary, "per_sample_loss": modules.Offering}


@pytest.mark.parametrize("relation", slow_but("zero_out", among=["zero_out", "add_remove"]))
@pytest.mark.parametrize("harmful", HARMFUL)
@pytest.mark.parametrize("module", MODULES)
def test_a_broken_record_of_a_users_module_is_not_noticed_item3(
    module, harmful, relation, tmp_path
):
    assert_indistinguishable(Case(Fit(MODULES[module]), lambda: pair(harmful, relation)), tmp_path)


@pytest.mark.parametrize("harmful", HARMFUL_SENTENCES)
@pytest.mark.parametrize("relation", slow_but("add_remove"))
def test_a_broken_dictionary_is_not_noticed_item3(harmful, relation, tmp_path):
    assert_indistinguishable(
        Case(Fit(texts.Reading), lambda: pair(harmful, relation, sentences=True)), tmp_path
    )


@pytest.mark.parametrize("harmful", HARMFUL)
def test_a_broken_record_of_a_spec_is_not_noticed_item3(harmful, tmp_path):
    assert_indistinguishable(Case(Command(), lambda: pair(harmful)), tmp_path)


@pytest.mark.parametrize("harmful", ["nan", "huge", "label_out_of_range", "negative_label"])
@pytest.mark.parametrize("relation", slow_but("replace_one"))
def test_a_broken_row_of_tensors_is_not_noticed_item3(harmful, relation, tmp_path):
    assert_indistinguishable(
        Case(Command(), lambda: pair(harmful, relation, tensors=True)), tmp_path
    )


@pytest.mark.parametrize("relation", slow_but("zero_out", "add_remove"))
@pytest.mark.parametrize(
    "module", [mistakes.Choosy, mistakes.ChoosyOffering, mistakes.Leaving, mistakes.RaisingLate]
)
def test_a_record_that_the_model_raises_on_is_not_noticed_item3(module, relation, tmp_path):
    assert_indistinguishable(
        Case(Fit(module), lambda: pair("large", relation, contributes=False)), tmp_path
    )


@pytest.mark.parametrize(
    "clipper", [Adaptive(max_grad_norm=0.5, unclipped_num_std=5.0), Microbatch(), AdaClip()]
)
@pytest.mark.parametrize("harmful", ["cannot_be_read", "label_out_of_range"])
def test_a_clipper_that_counts_or_averages_does_not_notice_a_broken_record_item3(
    clipper, harmful, tmp_path
):
    run = Fit(modules.Offering, private={"clipping": clipper})
    assert_indistinguishable(Case(run, lambda: pair(harmful)), tmp_path)


def test_a_user_on_whose_records_the_model_raises_is_not_noticed_item3(tmp_path):
    sampler = User(sample_rate=0.6, expected_batch_size=4, physical_batch_size=8)
    run = Fit(mistakes.ChoosyOffering, private={"sampler": sampler})
    assert_indistinguishable(
        Case(run, lambda: replace(user_pair("large", "zero_out"), contributes=False)), tmp_path
    )


def test_the_length_of_the_first_record_does_not_decide_how_many_are_evaluated_at_once_item3(
    tmp_path,
):
    """Made-up rows are like the first record; the memory that they take decides the size of pieces, which a run shows."""
    sampler = Poisson(sample_rate=0.6, expected_batch_size=10)
    run = Fit(texts.Reading, private={"sampler": sampler})
    assert_indistinguishable(
        Case(run, lambda: pair("of_another_length", at=0, sentences=True)), tmp_path
    )


@pytest.mark.parametrize("relation", slow_but("zero_out", among=["zero_out", "add_remove"]))
@pytest.mark.parametrize(
    "harmful", ["large", "huge", "nan", "cannot_be_read", "label_out_of_range", "wrong_shape"]
)
def test_a_user_with_broken_records_is_not_noticed_item3(harmful, relation, tmp_path):
    sampler = User(sample_rate=0.6, expected_batch_size=4, physical_batch_size=8)
    run = Fit(modules.Offering, private={"sampler": sampler})
    assert_indistinguishable(Case(run, lambda: user_pair(harmful, relation)), tmp_path)


@pytest.mark.parametrize(
    "harmful", ["nan", "cannot_be_read", "ends_the_program", "label_out_of_range", "wrong_shape"]
)
def test_a_broken_record_of_a_private_holdout_is_not_noticed_item3(harmful, tmp_path):
    run = Fit(modules.Ordinary, private={"holdout": "private"})
    assert_indistinguishable(Case(run, lambda: holdout_pair(harmful)), tmp_path)


@pytest.mark.parametrize("harmful", ["cannot_be_read", "wrong_shape", "nan"])
@pytest.mark.parametrize("given", ["with synthetic", "without synthetic"])
def test_a_broken_first_record_is_not_noticed_item3(harmful, given, tmp_path):
    """Made-up rows take their shape from the first record, unless they are given: that reads a record before any charge."""
    run = Fit(modules.Offering, synthetic=modules.made_up if given == "with synthetic" else None)
    assert_indistinguishable(Case(run, lambda: pair(harmful, at=0)), tmp_path)


@pytest.mark.parametrize("harmful", ["cannot_be_read", "wrong_shape"])
def test_a_broken_first_record_of_a_spec_is_not_noticed_item3(harmful, tmp_path):
    assert_indistinguishable(Case(Command(), lambda: pair(harmful, at=0)), tmp_path)
