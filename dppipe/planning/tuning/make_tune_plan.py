"""From a spec with a `tune` block to the plan of its search.

No record is read. What is released once for all runs, such as private statistics, comes first; the
selection is composed with it. Read next: `search_noise.py`, which sizes the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.earlier.runs import refuse_earlier, with_earlier
from dppipe.planning.first_releases import first_releases, refuse_preludes
from dppipe.planning.planned_release import PlannedRelease
from dppipe.planning.privacy_plan import stated_facts
from dppipe.planning.step_runs import CurvePoint
from dppipe.planning.tuning.candidate_events import run_events, shared_weights
from dppipe.planning.tuning.search_costs import search_costs
from dppipe.planning.tuning.search_noise import Search, search_cost, search_scales
from dppipe.planning.tuning.tune_plan import (
    PlannedCandidate,
    PlannedRepetitions,
    PlannedScore,
    SearchCosts,
    SearchPlan,
    TunePlan,
)
from dppipe.privacy.printing import shown
from dppipe.privacy.release import Release
from dppipe.privacy.rounding import round_up
from dppipe.privacy.tradeoff.profile import whole_curve_of
from dppipe.spec.tuning.candidates import candidate_spec, list_candidates

if TYPE_CHECKING:
    from dppipe.planning.earlier.runs import Earlier
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.events.sequences import Steps
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.spec import Spec
    from dppipe.spec.tuning.candidates import Candidate
    from dppipe.spec.tuning.tune import RepetitionOptions, Tune

_MOST_RAISED = 100
"""How often the noise on a score is raised, by 2 % each time."""


def make_tune_plan(
    spec: Spec, *, registry: Registry | None = None, allow_estimate: bool = False
) -> TunePlan:
    """Commit to a private search.

    Guarantee: all that is released, however many runs are made, costs at most the budget, by the
    spec's accountant.

    Args:
        spec: A spec with a `tune` block.
        registry: Where candidates' kinds are looked up, if plugins stand elsewhere than usual.
        allow_estimate: Whether the accountant may only estimate; no search accepts such a plan.

    Example:
        >>> from dppipe.planning.tuning.make_tune_plan import make_tune_plan
        >>> from dppipe.spec import load_spec
        >>> repeated = ["tune.repetitions={mean: 5}"]
        >>> tried = ["tune.candidates={optimizer.lr: [0.1, 0.25]}"]
        >>> spec = load_spec("pipelines/quickstart.yaml", overrides=[*tried, *repeated])
        >>> make_tune_plan(spec).epsilon <= 3.0
        True
    """
    terms = _make_terms(spec, registry=registry)
    accountant = terms.accountant(before=terms.before)
    scales = search_scales(terms.search, accountant, allow_estimate=allow_estimate)
    search = _with_free_score(terms.search, spec, scales, accountant)
    release = _selection_release(search, scales)
    numbers = _numbers(terms, [*terms.preludes, release])
    if not numbers["certified"] and not allow_estimate:
        raise PrivacyRefusal(
            f"accountant {spec.accountant.kind}: expected a proven bound on the search, got an "
            "estimate. Take accountant: pld or rdp."
        )
    return TunePlan(
        name=spec.name,
        learner=spec.learner.kind,
        records=spec.public_count(),
        releases=tuple(PlannedRelease.of(one) for one in (*terms.preludes, release)),
        unit=spec.unit,
        earlier=terms.earlier,
        search=SearchPlan(
            candidates=_planned_candidates(terms.candidates, search, scales),
            repetitions=_planned_repetitions(search.repetitions),
            score=PlannedScore(metric=terms.score, noise_std=search.noise_std),
            costs=_costs(terms, search, scales),
        ),
        **numbers,
        **stated_facts(spec),
    )


@dataclass(frozen=True)
class _Terms:
    """What is fixed before the noise is sized."""

    spec: Spec
    candidates: list[Candidate]
    search: Search
    score: Literal["accuracy", "loss"]
    preludes: tuple[Release, ...]
    """What is released once, before the search."""
    earlier: Earlier | None
    """The private runs that trained the starting weights."""

    @property
    def before(self) -> Steps:
        return [(release.event, release.count) for release in self.preludes]

    def accountant(self, *, before: Steps) -> Accountant:
        """Return an accountant whose bounds include earlier runs and some events before."""
        return with_earlier(
            self.spec.accountant,
            self.earlier,
            before=before,
            failure=0.0,
            relation=self.search.budget.relation,
        )


def _make_terms(spec: Spec, *, registry: Registry | None) -> _Terms:
    tune = spec.tune
    budget = spec.budget
    if tune is None or budget == "none":
        raise UsageError("tune: expected a spec with a tune block and a budget, got one without.")
    candidates = list_candidates(tune, seed=spec.seed)
    specs = [candidate_spec(spec, candidate, registry=registry) for candidate in candidates]
    earlier = shared_weights(spec, specs)
    if earlier is not None:
        refuse_earlier(earlier, budget, spec.accountant, unit=spec.unit, adaptive=False)
    preludes = first_releases(spec.data.preludes, budget)
    refuse_preludes(preludes, spec.accountant, budget)
    search = Search(
        runs=tuple(run_events(one) for one in specs),
        weights=tuple(candidate.weight for candidate in candidates),
        repetitions=tune.repetitions,
        noise_std=_given_noise(spec, tune),
        budget=budget,
    )
    return _Terms(spec, candidates, search, tune.score.metric, preludes, earlier)


def _given_noise(spec: Spec, tune: Tune) -> float | None:
    """Return the noise on the score that a spec sets; None for a public holdout, and for auto."""
    if spec.data.holdout == "public" or tune.score.noise_std == "auto":
        return None
    return float(tune.score.noise_std)


def _with_free_score(
    search: Search, spec: Spec, scales: tuple[float, ...], accountant: Accountant
) -> Search:
    """Size the noise on a private score, where that is left to the plan.

    It stays below training's privacy curve. An accountant that doesn't compute with curves may
    still find the score dearer; then the noise is raised until the search fits the budget.
    """
    from dppipe.privacy.selection.events import run_chords
    from dppipe.privacy.selection.scores import free_noise_std

    if spec.data.holdout == "public" or search.noise_std is not None:
        return search
    run = run_chords(search.run_event(scales), relation=search.budget.relation)
    scored = replace(search, noise_std=free_noise_std(run))
    for _ in range(_MOST_RAISED):
        if search_cost(scored, accountant, scales) <= search.budget.epsilon:
            break
        scored = replace(scored, noise_std=round_up((scored.noise_std or 1.0) * 1.02, 5))
    return scored


def _selection_release(search: Search, scales: tuple[float, ...]) -> Release:
    repetitions = search.repetitions
    facts: dict[str, float | int | str] = {
        "candidates": len(search.runs),
        "repetitions": repetitions.kind,
        "mean": repetitions.mean,
    }
    if repetitions.kind != "poisson":
        facts["shape"] = repetitions.event_shape
    return Release(
        what="selection",
        event=search.event(scales),
        facts=facts,
        place="tune.repetitions.mean",
    )


def _costs(terms: _Terms, search: Search, scales: tuple[float, ...]) -> SearchCosts:
    runs = [run.event(scale) for run, scale in zip(search.runs, scales, strict=True)]
    return search_costs(
        search.event(scales),
        list(dict.fromkeys(runs)),
        mean=search.repetitions.mean,
        accountant=terms.spec.accountant,
        before=terms.before,
        earlier=terms.earlier,
        budget=search.budget,
    )


def _planned_candidates(
    candidates: list[Candidate], search: Search, scales: tuple[float, ...]
) -> tuple[PlannedCandidate, ...]:
    from dppipe.privacy.events.plain import event_to_data

    made: list[PlannedCandidate] = []
    for candidate, run, scale in zip(candidates, search.runs, scales, strict=True):
        made.append(
            PlannedCandidate(
                overrides=dict(candidate.overrides),
                weight=candidate.weight,
                noise_multiplier=scale,
                event=event_to_data(run.event(scale)),
            )
        )
    return tuple(made)


def _planned_repetitions(options: RepetitionOptions) -> PlannedRepetitions:
    from dppipe.privacy.selection.repetitions import Repetitions

    runs = Repetitions(mean=options.mean, shape=options.event_shape)
    return PlannedRepetitions(
        kind=options.kind,
        mean=options.mean,
        shape=None if runs.is_poisson else runs.shape,
        median=runs.quantile(0.5),
        most=runs.quantile(0.99),
    )


def _numbers(terms: _Terms, releases: list[Release]) -> dict[str, Any]:
    """Return the plan's numbers about privacy: epsilon after each release, the selection last."""
    budget = terms.search.budget
    accountant = terms.accountant(before=())
    events: Steps = [(release.event, release.count) for release in releases]
    composed = accountant.compose(events, relation=budget.relation)
    total = composed.epsilon(budget.delta)
    if total > budget.epsilon:
        raise PrivacyRefusal(
            f"budget.epsilon: expected at least {shown(total)}, what the search costs, got "
            f"{budget.epsilon:g}. Raise it or the noise."
        )
    points: list[CurvePoint] = []
    for done in range(1, len(events)):
        first = accountant.compose(events[:done], relation=budget.relation)
        points.append(CurvePoint(step=done, epsilon=min(first.epsilon(budget.delta), total)))
    points.append(CurvePoint(step=len(events), epsilon=total))
    return {
        "private": True,
        "relation": budget.relation,
        "scope": budget.scope,
        "budget_epsilon": budget.epsilon,
        "delta": budget.delta,
        "accountant": terms.spec.accountant.kind,
        "certified": composed.certified,
        "epsilon": total,
        "curve": tuple(points),
        "whole_curve": whole_curve_of(composed, delta=budget.delta),
    }
