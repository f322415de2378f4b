"""Tuning on public records: every candidate once, all scores seen, nothing charged to the budget.

Guarantee: no record of the spec's own data is read. Each candidate is a run of its own on the other
data, whose records need no protection, with the noise of the spec's whole budget there: so settings
are compared as one private run would use them. Its files are deleted with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dppipe.data.base import split_records
from dppipe.errors import Interrupted, PrivacyRefusal, SpecError, UsageError
from dppipe.learners.gating.sources import NoiseSources
from dppipe.learners.inputs.model_inputs import released_transforms, transformed_part
from dppipe.learners.records.silenced_output import silenced
from dppipe.pipeline.load import load_network
from dppipe.pipeline.run import run_spec
from dppipe.pipeline.tuning.scoring import score_run
from dppipe.planning.privacy_plan import make_plan
from dppipe.planning.tuning.tune_plan import PlannedScore
from dppipe.runs.directory import RunDirectory
from dppipe.spec.public_data import name_same_records
from dppipe.spec.rules.between_blocks import check_rules
from dppipe.spec.spec import Spec
from dppipe.spec.tuning.candidates import candidate_spec, list_candidates

if TYPE_CHECKING:
    from dppipe.data.base import Data
    from dppipe.planning.plan import Plan
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.tuning.candidates import Candidate


@dataclass(frozen=True)
class PublicRun:
    """One candidate, as a run of its own on public records."""

    candidate: Candidate
    spec: Spec
    plan: Plan


@dataclass(frozen=True)
class PublicScore:
    """What one candidate reached on public records."""

    number: int
    overrides: dict[str, Any]
    score: float | None
    """The higher the better: a share of right answers, or minus a mean loss; None if the run has
    diverged."""


def is_public(data: Data) -> bool:
    """Return whether no record of some data needs protection: it is made up, or declared so."""
    return data.kind == "synthetic" or bool(data.public)


def public_runs(spec: Spec, other: Spec, *, registry: Registry) -> list[PublicRun]:
    """Return a run of every candidate on the public records of another spec, in their order.

    What is wrong with any of them is an error before the first is made.

    Args:
        spec: A spec with a `tune` block; its records aren't read.
        other: A spec whose data is public.
        registry: Where kinds are looked up.
    """
    if spec.tune is None:
        raise UsageError("tune: expected a spec with a tune block, got one without.")
    _refuse_private(spec.data, other.data)
    runs: list[PublicRun] = []
    for candidate in list_candidates(spec.tune, seed=spec.seed):
        made = _on_other_data(spec, other, candidate, registry)
        runs.append(PublicRun(candidate, made, make_plan(made)))
    return runs


def score_runs(
    runs: list[PublicRun], *, metric: Literal["accuracy", "loss"]
) -> Iterator[PublicScore]:
    """Make each run, and yield its score."""
    planned = PlannedScore(metric=metric, noise_std=None)
    for number, run in enumerate(runs):
        yield PublicScore(number, dict(run.candidate.overrides), _score(run, planned))


def tuned_spec(spec: Spec, best: PublicScore, *, registry: Registry) -> Spec:
    """Return the spec of one run on the spec's own records, with the settings that were found."""
    if spec.tune is None:
        raise UsageError("tune: expected a spec with a tune block, got one without.")
    candidate = list_candidates(spec.tune, seed=spec.seed)[best.number]
    return candidate_spec(spec, candidate, registry=registry)


def best_score(scores: list[PublicScore]) -> PublicScore:
    """Return the first of the best; refuse scores of which none is a number."""
    known = [one for one in scores if one.score is not None]
    if not known:
        raise UsageError(
            "tune.candidates: expected one whose run doesn't diverge, got none. Lower the learning "
            "rates, or take other settings."
        )
    return max(known, key=lambda one: one.score or 0.0)


def _refuse_private(own: Data, other: Data) -> None:
    if not is_public(other):
        raise PrivacyRefusal(
            "--on: data: expected data that is declared public, got data whose records may need "
            "protection: every score would be seen. Set data.public: true if nobody needs "
            "protection there, or take kind: synthetic."
        )
    if not is_public(own) and name_same_records(own, other):
        raise PrivacyRefusal(
            "--on: data: expected other records than the spec's own, which are private there, got "
            "the same ones. Name other data."
        )


def _on_other_data(spec: Spec, other: Spec, candidate: Candidate, registry: Registry) -> Spec:
    """Return a candidate as a run of its own on the other data, in one process and in no scope."""
    data = candidate_spec(spec, candidate, registry=registry).to_data()
    data["data"] = other.data.to_data() | {"holdout": "public"}
    data["budget"].pop("scope", None)
    data["performance"] |= {"devices": 1, "num_nodes": 1, "strategy": "auto"}
    made = Spec.from_data(data, context=registry)
    problems = check_rules(made)
    if problems:
        raise SpecError(problems)
    return made


def _score(made: PublicRun, planned: PlannedScore) -> float | None:
    spec = made.spec
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder) / "run")
        try:
            with silenced():
                run_spec(spec, made.plan, run_dir=run.path)
        except Interrupted as error:
            message = "--on: interrupted. Nothing was written, and no budget was spent."
            raise Interrupted(message, exit_code=error.exit_code) from None
        holdout = split_records(spec.data, seed=spec.seed, by=made.plan.splits_by).val
        if holdout is None:
            raise UsageError("data.split: expected validation records to score runs on, got none.")
        records = transformed_part(holdout, released_transforms(spec.data, run))
        network = load_network(run, spec)
        return score_run(network, records, spec, planned=planned, sources=NoiseSources())
