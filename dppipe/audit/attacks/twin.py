"""The non-private twin of a run: the same spec without clipping and noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.audit.attacks.predictor import Predictor, load_predictor
from dppipe.audit.attacks.training import train_on, without_budget
from dppipe.errors import UsageError
from dppipe.pipeline.load import spec_of
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.audit.attacks.options import AttackOptions
    from dppipe.audit.attacks.victim import Victim
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class Twin:
    """A model that was trained on the victim's records without any protection."""

    model: Predictor
    spec: Spec
    """What trains models like it, without a budget."""
    name: str
    """What a report calls it."""


def make_twin(victim: Victim, options: AttackOptions, *, folder: Path) -> Twin:
    """Return the twin that the options name, or train one on the victim's training records."""
    if options.twin_epochs is not None and not victim.spec.takes_steps:
        raise UsageError(
            "attack: --twin-epochs: expected a learner that trains for epochs, got "
            f"{victim.spec.learner.kind!r}. Leave it out, or name a finished run by --twin."
        )
    if options.twin is not None:
        return _read_twin(victim, options.twin, plugins=options.plugins)
    spec = _twin_spec(victim, options)
    model = train_on(spec, victim.records.members, seed=victim.spec.seed, folder=folder)
    return Twin(model, spec, "non-private twin")


def _twin_spec(victim: Victim, options: AttackOptions) -> Spec:
    epochs = options.twin_epochs
    endless = isinstance(victim.plan, StepPlan) and victim.spec.train.until is not None
    if epochs is None and endless:
        # It trained until its budget was spent, and the twin has none.
        return without_budget(victim.spec, steps=victim.plan.steps)
    return without_budget(victim.spec, epochs=epochs)


def _read_twin(victim: Victim, place: Path, *, plugins: Path | None) -> Twin:
    run = RunDirectory.open(place)
    plan = read_plan(run)
    if plan.private:
        raise UsageError(
            f"{place}: --twin: expected a run with `budget: none`, got a private one. Train the "
            f"twin with: {shown_command('run', victim.run.config, '--set', 'budget=none')}"
        )
    spec = spec_of(run, plugins=plugins)
    same_data = spec.data == victim.spec.data and spec.seed == victim.spec.seed
    if not same_data or plan.splits_by != victim.plan.splits_by:
        raise UsageError(
            f"{place}: --twin: expected a run with the same `data` and `seed`, split in the same "
            "way, got another: one's members would be the other's non-members. Leave --twin out, "
            "and a twin is trained."
        )
    return Twin(load_predictor(run, spec), spec, "non-private twin")
