"""`dppipe attack RUN --kind inversion`: what a model shows of a class, or of a record's column."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast, get_args

from dppipe.audit.attacks.box import box_of
from dppipe.audit.attacks.inversion import attribute_report, class_report
from dppipe.audit.attacks.inversion.attribute_trial import run_attribute_trial
from dppipe.audit.attacks.inversion.class_trial import (
    PRIVATE,
    TWIN,
    Attacker,
    Prior,
    images_to_draw,
    run_class_trial,
)
from dppipe.audit.attacks.inversion.columns import find_place, places_of, values_of
from dppipe.audit.attacks.inversion.generator import generator_of_class
from dppipe.audit.attacks.inversion.own_records import take_sides
from dppipe.audit.attacks.report import Report
from dppipe.audit.attacks.training import temporary_folder
from dppipe.audit.attacks.twin import make_twin
from dppipe.errors import UsageError
from dppipe.spec.messages.suggestions import suggest_name

if TYPE_CHECKING:
    from torch import nn

    from dppipe.audit.attacks.options import AttackOptions
    from dppipe.audit.attacks.predictor import Predictor
    from dppipe.audit.attacks.victim import Victim

SEED = 0
"""The seed of the attack's own draws: public, and printed."""


def attack(victim: Victim, options: AttackOptions) -> Report:
    """Invert classes or, with `--column`, infer an attribute."""
    if victim.spec.data.input_layout.vocabulary is not None:
        raise UsageError(
            f"{victim.run.path}: --kind inversion: expected inputs of real numbers, got token ids: "
            "no search can follow a slope among them."
        )
    if options.column is not None or options.method == "attribute":
        return _infer_attribute(victim, options)
    return _invert_classes(victim, options)


def _invert_classes(victim: Victim, options: AttackOptions) -> Report:
    classes = _classes(victim, options.class_number)
    prior = _prior(victim, options)
    generator = _own_generator(victim, options.generator)
    sides = take_sides(victim, most=options.members, seed=SEED)
    box = box_of(victim.spec.data, ())
    public = victim.spec.data.holdout == "public"
    attacker = Attacker(
        prior,
        box,
        start=sides.own.inputs.mean(0),
        images=images_to_draw(sides, box=box, public=public, seed=SEED),
        seed=SEED,
        generator=generator,
    )
    models = _models(victim, options)
    options.progress.next("inverting classes")
    trial = run_class_trial(models, sides, attacker, classes)
    return Report(
        kind="inversion",
        method="generator" if prior == "generator" else "class",
        lines=class_report.screen_lines(trial, victim.claim),
        data=class_report.as_data(trial, victim.claim) | {"seed": SEED},
        text=list(class_report.paragraphs(trial, seed=SEED)),
        picture="inversion.png",
        draw=partial(class_report.draw_classes, trial=trial, box=box),
    )


def _infer_attribute(victim: Victim, options: AttackOptions) -> Report:
    if options.column is None:
        raise UsageError(
            "attack: --method attribute: expected --column, the column that the attacker doesn't "
            f"know, got none. {_columns(victim)}"
        )
    place = find_place(victim.spec.data, options.column)
    sides = take_sides(victim, most=options.members, seed=SEED)
    values = values_of(place, sides.own.inputs)
    models = _models(victim, options)
    options.progress.next("guessing")
    trial = run_attribute_trial(models, sides, values)
    claim = victim.claim
    return Report(
        kind="inversion",
        method="attribute",
        lines=attribute_report.screen_lines(trial, claim),
        data=attribute_report.as_data(trial, claim) | {"seed": SEED},
        text=list(attribute_report.paragraphs(trial, seed=SEED)),
        picture="inversion.png",
        draw=partial(attribute_report.draw_hits, trial=trial, claim=claim),
    )


def _own_generator(victim: Victim, class_path: str | None) -> nn.Module | None:
    """Return the attacker's own generator; a mistake in it shows before anything is read."""
    if class_path is None:
        return None
    return generator_of_class(class_path, tuple(victim.spec.data.input_shape))


def _models(victim: Victim, options: AttackOptions) -> Mapping[str, Predictor]:
    """Return the run's model and its twin's."""
    options.progress.begin(2)
    options.progress.next("the non-private twin")
    with temporary_folder() as folder:
        twin = make_twin(victim, options, folder=folder)
    return {PRIVATE: victim.model, TWIN: twin.model}


def _classes(victim: Victim, asked: int | None) -> tuple[int, ...]:
    data = victim.spec.data
    if data.task == "regression":
        raise UsageError(
            "attack: --kind inversion: expected a model of classes, got a regression, which has "
            f"none to invert. Give --column to infer one of its columns. {_columns(victim)}"
        )
    count = 2 if data.task == "binary" else data.outputs
    if asked is None:
        return tuple(range(count))
    if not 0 <= asked < count:
        raise UsageError(f"attack: --class: expected a class from 0 to {count - 1}, got {asked}.")
    return (asked,)


def _prior(victim: Victim, options: AttackOptions) -> Prior:
    """Return what the attacker expects of an input: smooth images, unless the options say."""
    is_image = len(victim.spec.data.input_shape) == 3
    known = get_args(Prior)
    asked = options.prior
    if asked is None:
        wants_generator = options.method == "generator" or options.generator is not None
        default: Prior = "tv" if is_image else "none"
        return "generator" if wants_generator else default
    if asked not in known:
        raise UsageError(
            f"attack: --prior: expected one of {', '.join(known)}, got {asked!r}."
            f"{suggest_name(asked, known)}"
        )
    if asked == "tv" and not is_image:
        raise UsageError(
            "attack: --prior tv: expected images, whose neighbouring pixels are alike, got a "
            "table. Leave it out."
        )
    if asked != "generator" and (options.method == "generator" or options.generator is not None):
        raise UsageError(
            f"attack: --prior: expected generator beside a generator, got {asked!r}. Give one "
            "of them."
        )
    return cast(Prior, asked)


def _columns(victim: Victim) -> str:
    known = list(places_of(victim.spec.data))
    if not known:
        return "This run's data is no table."
    return f"Columns: {', '.join(known[:20])}{', ...' if len(known) > 20 else ''}."
