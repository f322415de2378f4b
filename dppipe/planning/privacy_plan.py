"""From parts to a plan: the steps, the noise that lands on the budget, the epsilon after each step.

`make_plan` reads a spec; `plan_privacy` does the same for parts that were made in Python. Neither
reads a record: the only fact about the data is the number of records, and not even that where the
relation keeps it secret. Read next: `steps/budget_numbers.py`, which sizes the noise and its cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Unpack

from dppipe.errors import UsageError
from dppipe.planning.data_source import source_of_data
from dppipe.planning.earlier.recognition import recognise
from dppipe.planning.parts import PrivateParts, parts_of
from dppipe.planning.plan import Plan
from dppipe.planning.release_plan import LearnerParts, plan_releases
from dppipe.planning.stated import DEFAULT_FACTS, StatedFacts
from dppipe.planning.step_plan import StepPlan
from dppipe.planning.steps.batch_numbers import batch_sizes, make_timetable, sampling_numbers
from dppipe.planning.steps.budget_numbers import budget_numbers
from dppipe.planning.steps.noise_limits import refuse_noise
from dppipe.privacy.release import PublicFacts
from dppipe.spec.spec import Spec, committed_hash, spec_hash

__all__ = [
    "PrivateParts",
    "learner_parts",
    "make_plan",
    "make_step_plan",
    "parts_of",
    "plan_privacy",
    "public_facts",
    "run_parts",
    "stated_facts",
]


def plan_privacy(
    parts: PrivateParts,
    *,
    name: str,
    records: int | None,
    steps: int | None = None,
    epochs: float | None = None,
    allow_estimate: bool = False,
    **stated: Unpack[StatedFacts],
) -> StepPlan:
    """Commit to a run.

    Args:
        parts: The components that decide privacy.
        name: What the run is called.
        records: The number of records, or of users if these are drawn; unused under `add_remove`.
        steps: How many steps the run takes; without it and `epochs`, as many as the budget allows.
        epochs: How many epochs the run takes, where `steps` is None.
        allow_estimate: Whether the accountant may only estimate; no run accepts such a plan.
        **stated: Facts that the plan repeats.
    """
    public = None if _keeps_count_secret(parts) else records
    table = make_timetable(parts, records=public, steps=steps, epochs=epochs)
    privacy = budget_numbers(table, allow_estimate=allow_estimate)
    batches = table.batches(privacy["steps"])
    facts: dict[str, Any] = {**DEFAULT_FACTS, **stated}
    plan = StepPlan(
        name=name,
        records=public,
        batches=batches,
        bounds=table.bounds(privacy["steps"]),
        **sampling_numbers(table),
        **batch_sizes(table, batches, records=public),
        **parts.facts,
        **facts,
        **privacy,
    )
    refuse_noise(plan, parts.noise)
    return plan


def make_plan(spec: Spec, *, allow_estimate: bool = False) -> Plan:
    """Commit to what a spec says, whatever its learner.

    Of its data only the number of records, or of users, is read, and only if it is public.

    Example:
        >>> from dppipe.planning.privacy_plan import make_plan
        >>> from dppipe.spec import load_spec
        >>> plan = make_plan(load_spec("pipelines/quickstart.yaml"))
        >>> plan.steps, plan.epsilon <= 3.0
        (113, True)
    """
    if spec.tune is not None:
        raise UsageError(
            "tune: expected a spec of one run, got a private search. `dppipe plan` says what it "
            "costs, `dppipe tune` makes it; for one run, remove the block."
        )
    if spec.takes_steps:
        return make_step_plan(spec, allow_estimate=allow_estimate)
    parts = learner_parts(spec)
    return plan_releases(
        parts,
        public_facts(spec),
        name=spec.name,
        learner=spec.learner.kind,
        allow_estimate=allow_estimate,
        **stated_facts(spec),
    )


def make_step_plan(spec: Spec, *, allow_estimate: bool = False) -> StepPlan:
    """Commit to what a spec says whose learner takes steps."""
    return plan_privacy(
        replace(parts_of(spec), earlier=recognise(spec)),
        name=spec.name,
        records=spec.public_count(),
        steps=spec.train.steps,
        epochs=spec.train.epochs,
        allow_estimate=allow_estimate,
        **stated_facts(spec),
    )


def run_parts(spec: Spec) -> PrivateParts | LearnerParts:
    """Return what makes the run of a spec private, whatever its learner.

    A search takes no steps of its own: its plan lists all its releases.
    """
    if spec.takes_steps and spec.tune is None:
        return parts_of(spec)
    return learner_parts(spec)


def learner_parts(spec: Spec) -> LearnerParts:
    """Return what makes a run without steps private."""
    return LearnerParts(
        spec.learner,
        spec.accountant,
        None if spec.budget == "none" else spec.budget,
        spec.unit,
        earlier=recognise(spec),
        preludes=spec.data.preludes,
    )


def public_facts(spec: Spec) -> PublicFacts:
    """Return what is known of a spec's run before a record is read."""
    return spec.public_facts()


def stated_facts(spec: Spec) -> StatedFacts:
    """Return the facts of a spec that its plan repeats."""
    model = spec.trained_model
    return {
        "holdout": spec.data.holdout,
        "diagnostics": spec.diagnostics,
        "pretrained": model is not None and model.pretrained is not None,
        "own_module": _is_own_module(spec),
        "split": _split(spec),
        "data": source_of_data(spec.data, assumed=_assumed(spec)),
        "reproducible": spec.reproducible,
        "spec_hash": spec_hash(spec),
        "committed_hash": committed_hash(spec),
        "plugins": spec.plugin_files(),
    }


def _assumed(spec: Spec) -> str | None:
    """Return what the loss takes as publicly known about the records."""
    return None if spec.train.loss is None else spec.train.loss.assumed


def _split(spec: Spec) -> Literal["position", "hash"]:
    """Return how records are split: by hash where even their number is secret."""
    secret = spec.budget != "none" and spec.budget.relation == "add_remove"
    return "hash" if secret else "position"


def _is_own_module(spec: Spec) -> bool:
    """Whether the user's own code makes the model."""
    model = spec.trained_model
    if model is None:
        return False
    is_ours = type(model).__module__.startswith("dppipe.models.")
    return not is_ours or model.kind == "class_path"


def _keeps_count_secret(parts: PrivateParts) -> bool:
    return parts.budget is not None and parts.budget.relation == "add_remove"
