"""From a `tune` block to its candidates, each of which is a spec of its own.

A candidate is the spec without its `tune` block, with a few options changed. What all candidates
must share (the records, the budget, the accountant) can't be changed. Nothing here depends on a
record: ranges are drawn by the public `seed`.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dppipe.errors import DppipeError, Problem, SpecError
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.messages.explain import explain
from dppipe.spec.messages.suggestions import suggest_key
from dppipe.spec.rules.between_blocks import check_rules
from dppipe.spec.spec import Spec
from dppipe.spec.tuning.tune import Range, Ranges, Tune
from dppipe.spec.yaml.source import put_value

PLACE = ("tune", "candidates")
_SHARED = {
    "version": "they are of one file",
    "name": "they are one run",
    "seed": "weights and splits follow from it",
    "reproducible": "seeded runs protect nobody",
    "data": "the search is about one set of records",
    "budget": "it is that of the whole search",
    "accountant": "one accountant bounds the whole search",
    "diagnostics": "nothing of a run that loses may be seen",
    "tune": "a candidate is one run",
}
"""Blocks that all candidates have in common, and why."""
_DIGITS = 4


@dataclass(frozen=True)
class Candidate:
    """One candidate: what it changes, how likely it is, and where the spec says so."""

    overrides: Mapping[str, Any]
    weight: float
    """Over all candidates the weights add up to 1."""
    places: Mapping[str, tuple[str | int, ...]]
    """The place of each override in the spec."""


def list_candidates(tune: Tune, *, seed: int) -> list[Candidate]:
    """Return the candidates in order; ranges are drawn by the public seed."""
    found = list(_expanded(tune.candidates, seed=seed))
    weights = tune.weights
    if weights is None:
        weights = [1.0] * len(found)
    if len(weights) != len(found) or min(weights) < 0 or not 0 < math.fsum(weights) < math.inf:
        raise SpecError(
            [
                Problem(
                    ("tune", "weights"),
                    f"expected {len(found)} numbers >= 0, one for each candidate and not all 0, "
                    f"got {len(weights)}.",
                )
            ]
        )
    whole = math.fsum(weights)
    candidates: list[Candidate] = []
    for (overrides, places), weight in zip(found, weights, strict=True):
        candidates.append(Candidate(overrides, weight / whole, places))
    return candidates


_Found = tuple[dict[str, Any], dict[str, tuple[str | int, ...]]]


def _expanded(data: Any, *, seed: int) -> Iterator[_Found]:
    if isinstance(data, list):
        for number, overrides in enumerate(data):
            yield overrides, {option: (*PLACE, number, option) for option in overrides}
    elif "ranges" in data:
        yield from _drawn(Ranges.from_data(data), seed=seed)
    else:
        choices = [list(enumerate(values)) for values in data.values()]
        for chosen in itertools.product(*choices):
            overrides = {}
            places: dict[str, tuple[str | int, ...]] = {}
            for option, (number, value) in zip(data, chosen, strict=True):
                overrides[option] = value
                places[option] = (*PLACE, option, number)
            yield overrides, places


def _drawn(ranges: Ranges, *, seed: int) -> Iterator[_Found]:
    """Draw points; the draws are public, and don't change with the order of the options."""
    generators: dict[str, random.Random] = {}
    places: dict[str, tuple[str | int, ...]] = {}
    for option in ranges.ranges:
        generators[option] = random.Random(f"{seed} {option}")
        places[option] = (*PLACE, "ranges", option)
    for _ in range(ranges.points):
        overrides: dict[str, Any] = {}
        for option, limits in ranges.ranges.items():
            overrides[option] = _draw(limits, generators[option])
        yield overrides, places


def _draw(limits: Range, generator: random.Random) -> float | int:
    if limits.scale == "log":
        drawn = math.exp(generator.uniform(math.log(limits.low), math.log(limits.high)))
    else:
        drawn = generator.uniform(limits.low, limits.high)
    kept = min(max(float(f"{drawn:.{_DIGITS}g}"), limits.low), limits.high)
    return round(kept) if limits.whole else kept


def candidate_spec(spec: Spec, candidate: Candidate, *, registry: Registry | None = None) -> Spec:
    """Return a candidate's own spec; a SpecError says what is wrong, at the override's place."""
    known = registry or Registry()
    problems = list(_shared_problems(candidate))
    data = spec.to_data()
    del data["tune"]
    for option, value in candidate.overrides.items():
        _, problem = put_value(data, option.split("."), copy.deepcopy(value))
        if problem is not None:
            problems.append(_placed(problem, candidate, option=option))
    if problems:
        raise SpecError(problems)
    try:
        made = Spec.from_data(data, context=known)
    except ValidationError as error:
        found = explain(error, data, registry=known)
        raise SpecError([_placed(problem, candidate) for problem in found]) from error
    # The records are the same, so they needn't be counted anew.
    return made.model_copy(update={"data": spec.data})


def candidate_problems(spec: Spec, registry: Registry) -> Iterator[Problem]:
    """Yield what is wrong with the candidates of a spec that is right by itself."""
    if spec.tune is None:
        return
    seen: set[Problem] = set()
    try:
        candidates = list_candidates(spec.tune, seed=spec.seed)
    except SpecError as error:
        yield from error.problems
        return
    for candidate in candidates:
        for problem in _candidate_problems(spec, candidate, registry):
            if problem not in seen:
                seen.add(problem)
                yield problem


def _candidate_problems(spec: Spec, candidate: Candidate, registry: Registry) -> Iterator[Problem]:
    try:
        made = candidate_spec(spec, candidate, registry=registry)
    except SpecError as error:
        yield from error.problems
    except DppipeError as error:
        yield Problem(PLACE, str(error))
    else:
        for problem in (*check_rules(made), *_scoring_problems(made)):
            yield _placed(problem, candidate)


def _scoring_problems(made: Spec) -> Iterator[Problem]:
    """Yield that a learner makes no predictions, by which its runs could be compared."""
    if made.trained_model is None:
        yield Problem(
            ("learner", "kind"),
            "expected a learner with a model, as runs are compared by their predictions, got "
            f"{made.learner.kind!r}, which makes none. Take another learner, or remove tune.",
        )


def _shared_problems(candidate: Candidate) -> Iterator[Problem]:
    for option, place in candidate.places.items():
        top = option.split(".")[0]
        if top in _SHARED:
            yield Problem(
                place,
                f"expected an option in which candidates may differ, got {option!r}. All share "
                f"{top}: {_SHARED[top]}.",
            )
        elif top not in Spec.model_fields:
            known = [name for name in Spec.model_fields if name not in _SHARED]
            yield Problem(
                place,
                f"expected an option of the spec, such as optimizer.lr, got {option!r}."
                f"{suggest_key(top, known)}",
            )


def _placed(problem: Problem, candidate: Candidate, *, option: str | None = None) -> Problem:
    """Move a problem of a candidate's spec to the override that has caused it."""
    inside = ".".join(map(str, problem.path))
    place: tuple[str | int, ...] = PLACE
    for name, where in candidate.places.items():
        parts = tuple(name.split("."))
        if name == option or problem.path[: len(parts)] == parts:
            place = where
    message = f"{inside}: {problem.message}" if inside else problem.message
    return type(problem)(place, message)
