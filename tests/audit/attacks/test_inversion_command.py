"""`dppipe attack --kind inversion`: classes and columns, beside the twin and guesses without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dppipe.audit.attacks.inversion.attribute import guess_values
from dppipe.audit.attacks.inversion.attribute_trial import Hits
from dppipe.audit.attacks.inversion.class_inversion import invert_classes
from dppipe.audit.attacks.inversion.columns import Place, Values, values_of
from dppipe.audit.attacks.predictor import Predictor
from dppipe.cli.app import app


def attack(path: Path, *words: str):
    return CliRunner().invoke(app, ["attack", str(path), "--kind", "inversion", *words])


def folder(path: Path, method: str) -> Path:
    return path / "nonprivate" / "attack" / f"inversion-{method}"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--class", "1"),
        pytest.param(("--method", "generator"), marks=pytest.mark.slow),
    ],
)
def test_classes_are_inverted_beside_the_twin_and_guesses_without_a_model(run, words):
    made = run()
    result = attack(made.path, *words)
    assert result.exit_code == 0, result.output
    place = folder(made.path, "generator" if "generator" in words else "class")
    found = json.loads((place / "attack.json").read_text())
    assert list(found["judged"]) == [
        "private run", "non-private twin", "own class mean", "mean input",
    ]  # fmt: skip
    numbers = [each["number"] for each in found["judged"]["private run"]["classes"]]
    assert numbers == ([1] if "--class" in words else [0, 1, 2])
    assert (place / "inversion.png").exists()
    assert "nonprivate/attack" in (made.path / "privacy.md").read_text()


def test_a_column_is_guessed_beside_the_prior_and_the_certificates_bound(run):
    made = run("data.classes=2", "model.kind=mlp")
    result = attack(made.path, "--column", "2")
    assert result.exit_code == 0, result.output
    found = json.loads((folder(made.path, "attribute") / "attack.json").read_text())
    assert list(found["hits"]) == ["private run", "non-private twin", "prior alone"]
    assert len(found["values"]) == 10
    assert 0 < found["claim"]["most_advantage"] < 1


def test_a_column_of_a_regression_is_guessed_by_its_residuals(run):
    made = run("data.task=regression")
    result = attack(made.path, "--column", "0")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("changes", "words", "expected"),
    [
        ((), ("--class", "3"), "--class: expected a class from 0 to 2, got 3"),
        ((), ("--column", "age"), "--column: expected one of 0, 1, 2"),
        ((), ("--prior", "tvv"), "--prior: expected one of none, tv, generator"),
        ((), ("--prior", "tv"), "expected images"),
        ((), ("--method", "attribute"), "expected --column"),
        ((), ("--generator", "nowhere.Gen"), "--generator: expected a class"),
        ((), ("--generator", "torch.nn.Linear"), "--generator: expected a module"),
        ((), ("--record", "1"), "--record: expected only with --kind gradients"),
        (("data.task=regression",), (), "got a regression"),
    ],
)  # fmt: skip
def test_what_cannot_be_attacked_is_refused_and_nothing_is_written(run, changes, words, expected):
    made = run(*changes)
    result = attack(made.path, *words)
    assert result.exit_code == 2, result.output
    assert expected in result.output
    assert not (made.path / "nonprivate").exists()


def test_a_private_holdout_needs_nonprivate(run):
    made = run("data.holdout=private")
    assert attack(made.path).exit_code == 3
    assert attack(made.path, "--nonprivate").exit_code == 0


class Linear(torch.nn.Module):
    """The logit of class 1 is 40 times the last input."""

    def forward(self, inputs):
        return 40 * inputs[:, -1:]


def test_an_attribute_that_decides_the_target_is_read_off_the_target():
    model = Predictor(Linear(), (), "binary")
    values = Values(Place("x", 1, 1), torch.tensor([[-1.0], [1.0]]), ("-1", "1"))
    inputs = torch.zeros(4, 2)  # what stands in the unknown column isn't used
    targets = torch.tensor([0.0, 1.0, 1.0, 0.0])
    prior = torch.tensor([0.9, 0.1]).log()
    assert guess_values(model, inputs, targets, values, prior=prior).tolist() == [0, 1, 1, 0]


def test_the_prior_decides_where_the_model_says_nothing():
    model = Predictor(Linear(), (), "binary")
    values = Values(Place("x", 0, 1), torch.tensor([[-1.0], [1.0]]), ("-1", "1"))
    prior = torch.tensor([0.4, 0.6]).log()
    guessed = guess_values(model, torch.zeros(3, 2), torch.ones(3), values, prior=prior)
    assert guessed.tolist() == [1, 1, 1]


def test_words_have_a_place_for_any_other_word():
    place = Place("sex", 1, 2, ("m", "f"))
    inputs = torch.tensor([[5.0, 1, 0], [5, 0, 1], [5, 0, 0]])
    values = values_of(place, inputs)
    assert values.labels == ("m", "f", "another")
    assert values.numbers(inputs).tolist() == [0, 1, 2]


def test_a_class_is_inverted_towards_what_the_model_takes_for_it():
    model = Predictor(Linear(), (), "binary")
    found = invert_classes(model, (0, 1), start=torch.full((2,), 0.01))
    assert found.records[0, 1] < 0 < found.records[1, 1]
    assert min(found.confidences) > 0.98


def test_the_bounds_of_a_difference_hold_it_and_narrow_with_more_records():
    few, many = Hits(60, 50, 100), Hits(6000, 5000, 10_000)
    for hits in (few, many):
        least, most = hits.bounds
        assert least < hits.difference < most
    assert few.bounds[0] < 0 < many.bounds[0]
