"""Inverting the classes of a run, of its twin, and by guesses that need no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from dppipe.audit.attacks.inversion.class_inversion import (
    Inverted,
    confidences_of,
    invert_classes,
)
from dppipe.audit.attacks.inversion.generator import (
    invert_by_generator,
    train_generator,
)
from dppipe.audit.attacks.inversion.judging import (
    IndependentJudge,
    Judgement,
    class_means,
    judge,
)
from dppipe.audit.attacks.made_up import made_up_inputs

if TYPE_CHECKING:
    from dppipe.audit.attacks.box import Box
    from dppipe.audit.attacks.inversion.own_records import Sides
    from dppipe.audit.attacks.predictor import Predictor

Prior = Literal["none", "tv", "generator"]
PRIVATE = "private run"
TWIN = "non-private twin"
OWN_MEAN = "own class mean"
START = "mean input"
_MADE_UP_IMAGES = 512
"""How many images are made up for a generator, where the attacker's own aren't public."""


@dataclass(frozen=True)
class ClassTrial:
    """What each way to draw a class came to, by its name."""

    inverted: Mapping[str, Inverted]
    judged: Mapping[str, list[Judgement]]
    prior: Prior
    classes: tuple[int, ...]


@dataclass(frozen=True)
class Attacker:
    """What the attacker expects of inputs, and how it searches."""

    prior: Prior
    box: Box | None
    start: Tensor
    """`[*input_shape]`: the mean of the attacker's own records."""
    images: Tensor
    """`[n, *input_shape]`: what a generator learns to draw."""
    seed: int
    generator: nn.Module | None = None
    """A generator of the attacker's own; None to train one."""

    def invert(self, model: Predictor, classes: tuple[int, ...]) -> Inverted:
        """Return an input of each class."""
        if self.prior != "generator":
            smooth = self.prior == "tv"
            return invert_classes(model, classes, start=self.start, box=self.box, smooth=smooth)
        drawing = self.generator
        if drawing is None:
            drawing = train_generator(model, self.images, box=self.box, seed=self.seed)
        return invert_by_generator(model, drawing, classes, seed=self.seed)


def images_to_draw(sides: Sides, *, box: Box | None, public: bool, seed: int) -> Tensor:
    """Return what a generator learns to draw: the attacker's own records, or made-up images."""
    if public:
        return sides.own.inputs
    shape = tuple(sides.own.inputs.shape[1:])
    return made_up_inputs(shape, _MADE_UP_IMAGES, box=box, seed=seed)


def run_class_trial(
    models: Mapping[str, Predictor],
    sides: Sides,
    attacker: Attacker,
    classes: tuple[int, ...],
) -> ClassTrial:
    """Invert the classes of each model, and judge them beside guesses that need no model."""
    inverted = {name: attacker.invert(model, classes) for name, model in models.items()}
    first = next(iter(models.values()))
    inverted |= _guesses(first, sides, attacker, classes)
    judge_by = IndependentJudge(sides.own)
    judged: dict[str, list[Judgement]] = {}
    for name, found in inverted.items():
        judged[name] = judge(found, sides, judge_by, box=attacker.box)
    return ClassTrial(inverted, judged, attacker.prior, classes)


def _guesses(
    model: Predictor, sides: Sides, attacker: Attacker, classes: tuple[int, ...]
) -> dict[str, Inverted]:
    """Return what needs no model: the mean of own records of a class, and of all of them."""
    means = class_means(sides.own, classes)
    guesses: dict[str, Inverted] = {}
    known = tuple(means)
    if known:
        drawn = torch.stack(list(means.values()))
        guesses[OWN_MEAN] = Inverted(known, drawn, confidences_of(model, drawn, known))
    starts = attacker.start.expand(len(classes), *attacker.start.shape)
    guesses[START] = Inverted(classes, starts, confidences_of(model, starts, classes))
    return guesses
