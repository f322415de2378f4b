"""Rules of how a model is trained and measured: its optimizer, its loss, its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dppipe.clipper_abilities import transforms
from dppipe.errors import DppipeError, Problem
from dppipe.privacy.release import PublicFacts
from dppipe.spec.spec import Spec

if TYPE_CHECKING:
    from dppipe.clipping.base import Clipper
    from dppipe.noise.base import NoiseSchedule


def _optimizer(spec: Spec) -> Iterator[Problem]:
    if spec.optimizer is None and spec.model.kind != "class_path":
        message = (
            "expected the name of an optimizer or a block with `kind`, got nothing. Add one, "
            "such as {kind: sgd, lr: 0.1}."
        )
        yield Problem(("optimizer",), message)


def _noise_is_known(spec: Spec) -> Iterator[Problem]:
    """Yield what gives the noise another size than an optimizer can correct for."""
    if spec.optimizer is not None and spec.optimizer.uses_noise and spec.budget != "none":
        yield from unknown_noise(spec.clipping, spec.noise, optimizer=spec.optimizer.kind)


def unknown_noise(clipping: Clipper, noise: NoiseSchedule, *, optimizer: str) -> Iterator[Problem]:
    """Yield why the noise of a step isn't one known number, which such an optimizer needs."""
    clipper = clipping.kind
    if transforms(clipping):
        yield Problem(
            ("clipping", "kind"),
            f"expected noise of one size beside optimizer {optimizer!r}, which corrects for it, "
            f"got {clipper!r}, which gives each coordinate its own. Take kind: flat, or "
            "optimizer: adam.",
        )
    if noise.block > 1:
        yield Problem(
            ("noise", "kind"),
            f"expected independent noise beside optimizer {optimizer!r}, which corrects for it, "
            f"got {noise.kind!r}, whose noise is correlated between steps. Take kind: constant, or "
            "optimizer: adam.",
        )


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


TRAINING_RULES = (_optimizer, _noise_is_known, _objective)
