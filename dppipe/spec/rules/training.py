"""Rules of how a model is trained and measured: its optimizer, its loss, its metrics."""

from __future__ import annotations

from collections.abc import Iterator

from dppipe.errors import DppipeError, Problem
from dppipe.privacy.release import PublicFacts
from dppipe.spec.spec import Spec


def _optimizer(spec: Spec) -> Iterator[Problem]:
    if spec.optimizer is None and spec.model.kind != "class_path":
        message = (
            "expected the name of an optimizer or a block with `kind`, got nothing. Add one, "
            "such as {kind: sgd, lr: 0.1}."
        )
        yield Problem(("optimizer",), message)


def _objective(spec: Spec) -> Iterator[Problem]:
    """Loss and metrics fit the data."""
    train = spec.train
    if train.loss is None and train.metrics is None:
        return
    try:
        facts = spec.public_facts()
    except (DppipeError, OSError, ValueError):
        return  # another rule reports what is wrong with the data
    yield from _loss(spec, facts)
    for number, metric in enumerate(train.metrics or ()):
        for message in metric.problems(facts):
            yield Problem(("train", "metrics", number), message)


def _loss(spec: Spec, facts: PublicFacts) -> Iterator[Problem]:
    loss = spec.train.loss
    if loss is None:
        return
    for option, message in loss.problems(task=spec.data.task, outputs=facts.outputs):
        place = ("train", "loss", option) if option else ("train", "loss")
        yield Problem(place, message)


TRAINING_RULES = (_optimizer, _objective)
