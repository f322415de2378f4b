"""What one run of a candidate releases, at any noise: planning a search sizes that noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.clipper_abilities import failure_delta
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.earlier.recognition import recognise, weight_files
from dppipe.planning.parts import parts_of
from dppipe.planning.plugin_releases import check_plugin_planning, check_plugin_releases
from dppipe.planning.steps.batch_numbers import make_timetable
from dppipe.privacy.release import is_built_in
from dppipe.spec.yaml.source import put_value

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.planning.earlier.runs import Earlier
    from dppipe.privacy.events.sequences import Steps
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class RunEvents:
    """The events of one run of a candidate, without what is released once for all of them."""

    at: Callable[[float], Steps]
    """Returns the events at a noise scale."""
    scale: float | None
    """The scale that the spec sets; None for `auto`."""

    def event(self, scale: float) -> DpEvent:
        """Return all that a run releases at a noise scale, as one event."""
        from dppipe.privacy.events.sequences import as_one_event, merge

        return as_one_event(merge(self.at(scale)))


def run_events(spec: Spec) -> RunEvents:
    """Return what a run of a candidate's spec releases; refuse what no proof covers."""
    return _step_events(spec) if spec.takes_steps else _release_events(spec)


def _step_events(spec: Spec) -> RunEvents:
    parts = parts_of(spec)
    if parts.budget is not None:
        parts.refuse_together(parts.budget)
    if parts.noise.adaptive:
        raise PrivacyRefusal(
            "noise: expected noise that is fixed before the search, got one that follows released "
            "values. No proof covers a selection among such runs."
        )
    if failure_delta(parts.clipping, uses=1.0) > 0:
        raise PrivacyRefusal(
            f"clipping.kind: expected a bound that can't fail, got {parts.clipping.kind!r}. No "
            "proof covers a selection among runs whose bound may fail."
        )
    table = make_timetable(
        parts, records=spec.public_count(), steps=spec.train.steps, epochs=spec.train.epochs
    )
    charges = table.charges
    if charges is None:
        raise PrivacyRefusal("train.until: expected steps or epochs, got until: budget.")
    multiplier = spec.noise.noise_multiplier
    return RunEvents(
        at=lambda scale: table.events(scale, charges=charges),
        scale=None if multiplier == "auto" else float(multiplier),
    )


def _release_events(spec: Spec) -> RunEvents:
    learner = spec.learner
    facts = spec.public_facts()
    option, _ = learner.set_scale(1.0)
    if option not in type(learner).model_fields:
        raise UsageError(
            f"learner: expected an option {option!r}, by which a search sets the noise of each "
            f"run, got {learner.kind!r}, which has none. Give it the field "
            f'`{option}: AutoFloat = Field("auto", gt=0)`.'
        )
    built_in = is_built_in(learner)
    if not built_in:
        check_plugin_planning(learner, facts)

    def at(scale: float) -> Steps:
        releases = list(learner.releases(facts, scale=scale))
        if not built_in:
            check_plugin_releases(releases)
        if not releases:
            raise PrivacyRefusal("learner: expected at least one release, got none.")
        return [(release.event, release.count) for release in releases]

    return RunEvents(at=at, scale=learner.scale)


def with_noise(spec: Spec, scale: float, *, registry: Registry | None = None) -> Spec:
    """Return a candidate's spec with its noise multiplier set."""
    data = spec.to_data()
    if spec.takes_steps:
        put_value(data, ["noise", "noise_multiplier"], scale)
    else:
        option, value = spec.learner.set_scale(scale)
        put_value(data, ["learner", option], value)
    made = type(spec).from_data(data, context=registry)
    return made.model_copy(update={"data": spec.data})


def shared_weights(spec: Spec, candidates: list[Spec]) -> Earlier | None:
    """Return the earlier private runs that trained the starting weights of all candidates alike."""
    earlier = recognise(spec)
    for candidate in candidates:
        same_files = weight_files(candidate) == weight_files(spec)
        if not same_files and recognise(candidate) != earlier:
            raise PrivacyRefusal(
                "tune.candidates: expected candidates that start from the same weights, got ones "
                "whose weights come from different private runs. Their cost would differ."
            )
    return earlier
