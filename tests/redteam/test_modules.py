"""Modules of users that keep, log or follow what they see: nothing of it may come out."""

from __future__ import annotations

import pytest
import pytorch_lightning as pl
from redteam import mistakes, modules, texts
from redteam.neighbours import holdout_pair, pair
from redteam.running import Case, Command, Fit, assert_indistinguishable, slow_but

pytestmark = pytest.mark.sampled(3)

RELATIONS = ["zero_out", "add_remove", "replace_one"]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("module", [modules.Ordinary, modules.Offering])
def test_an_ordinary_module_shows_nothing_of_one_record(module, relation, tmp_path):
    assert_indistinguishable(Case(Fit(module), lambda: pair("large", relation)), tmp_path)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_module_that_takes_dictionaries_shows_nothing_of_one_record(relation, tmp_path):
    assert_indistinguishable(
        Case(Fit(texts.Reading), lambda: pair("large", relation, sentences=True)), tmp_path
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "model", ["{kind: logistic}", "{kind: mlp, hidden: [6]}", "{class_path: redteam.modules.Net}"]
)
def test_a_spec_shows_nothing_of_one_record(model, relation, tmp_path):
    run = Command((f"model={model}",))
    assert_indistinguishable(Case(run, lambda: pair("large", relation, tensors=True)), tmp_path)


@pytest.mark.parametrize("relation", slow_but("zero_out"))
@pytest.mark.parametrize(
    "module",
    [
        pytest.param(mistakes.Keeping, id="item1-losses-logged-at-the-end-of-an-epoch"),
        pytest.param(
            mistakes.KeepingElsewhere,
            id="item1-running-loss-kept-outside-and-logged-after-each-step",
        ),
        pytest.param(mistakes.Measuring, id="item1-torchmetric-updated-in-per_sample_loss"),
        pytest.param(mistakes.MeasuringInSteps, id="item9-torchmetric-updated-in-training_step"),
    ],
)
def test_what_a_module_logs_of_its_records_does_not_come_out(module, relation, tmp_path):
    assert_indistinguishable(Case(Fit(module), lambda: pair("large", relation)), tmp_path)


@pytest.mark.parametrize("relation", slow_but("zero_out"))
@pytest.mark.parametrize(
    "module",
    [
        pytest.param(mistakes.Averaging, id="item6-running-mean-in-a-buffer-from-step-2"),
        pytest.param(mistakes.Remembering, id="item6-memory-bank"),
    ],
)
def test_what_a_module_keeps_of_its_records_does_not_come_out(module, relation, tmp_path):
    assert_indistinguishable(
        Case(Fit(module), lambda: pair("large", relation), completes=False), tmp_path
    )


def test_batch_norm_that_a_hook_puts_into_train_mode_shows_nothing_item6(tmp_path):
    run = Fit(mistakes.Normalising, private={"sampler": modules.in_one_piece()})
    assert_indistinguishable(Case(run, lambda: pair("large"), completes=False), tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            "{class_path: redteam.mistakes.CentringNet}", id="item6-buffer-of-a-class_path-network"
        )
    ],
)
def test_what_a_network_of_a_spec_keeps_does_not_come_out(model, tmp_path):
    assert_indistinguishable(
        Case(Command((f"model={model}",)), lambda: pair("large"), completes=False), tmp_path
    )


def test_a_learning_rate_does_not_follow_training_losses_item2(tmp_path):
    assert_indistinguishable(
        Case(Fit(mistakes.FollowingTraining), lambda: pair("large"), completes=False), tmp_path
    )


def test_a_learning_rate_does_not_follow_a_private_holdout_item2(tmp_path):
    run = Fit(mistakes.Following, private={"holdout": "private"})
    assert_indistinguishable(Case(run, lambda: holdout_pair("large"), completes=False), tmp_path)


def test_early_stopping_does_not_follow_training_losses_item2(tmp_path):
    def stopping() -> list[pl.Callback]:
        return [
            pl.callbacks.EarlyStopping(
                "running_loss", patience=0, check_on_train_epoch_end=True, check_finite=True
            )
        ]

    run = Fit(mistakes.KeepingElsewhere, callbacks=stopping)
    assert_indistinguishable(Case(run, lambda: pair("large"), completes=False), tmp_path)


def test_a_private_holdout_comes_out_under_nonprivate_names_alone_item1(tmp_path):
    run = Fit(modules.Ordinary, private={"holdout": "private"})
    assert_indistinguishable(Case(run, lambda: holdout_pair("large")), tmp_path)


def test_a_private_holdout_of_a_spec_comes_out_under_nonprivate_names_alone(tmp_path):
    run = Command(("data.holdout=private",))
    assert_indistinguishable(Case(run, lambda: holdout_pair("large")), tmp_path)


@pytest.mark.parametrize("module", [mistakes.Alarmed, mistakes.Logging, mistakes.Printing])
def test_what_a_module_says_about_a_record_is_not_passed_on_item10(module, tmp_path):
    assert_indistinguishable(Case(Fit(module), lambda: pair("large")), tmp_path)
