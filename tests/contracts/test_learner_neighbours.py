"""One unit, whatever its records are, moves what a learner noises by at most what was charged, and nothing else at all.

Two runs differ in one unit: it is gone, replaced or does harm. The second run gets what the first one has released, so
every file, every message and every weight of both must be the same bit by bit. Before noise, their values may differ by
the sensitivity that the noise was scaled to; twice that under replace_one, as accountants charge it.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from contracts.learner_cases import CASES
from contracts.learner_runs import (
    ALL,
    Desk,
    Ran,
    Setting,
    differences,
    each,
    settings,
    usual_settings,
)
from contracts.release_recording import SOURCES, Draw, Trace, charged_for, distance, multipliers
from contracts.staged_records import HARMFUL, Neighbours, Records, ordinary

from dppipe.spec.load import load_spec

pytestmark = pytest.mark.sampled(3)

SOUND = tuple(case for case in ALL if case.sound)
SETTINGS = settings(supported=True, cases=SOUND)
FEW = ("large", "large with another label", "nan", "label out of range")
"""What is tried under the other relations and units; the first one has all of `HARMFUL`.

One of the first two is always predicted badly, so a learner whose losses level off is moved.
"""
ROUNDING = 1e-9
"""By how much, relative to the bound, two values may differ beyond it."""
NOTHING = 1e-5
"""What a solver that isn't exact, or sums in another order, may move a value by."""


def harmful_of(setting: Setting) -> tuple[str, ...]:
    first = (setting.relation, setting.unit) == (setting.case.relations[0], setting.case.units[0])
    return tuple(HARMFUL) if first and setting.case in CASES else FEW


@each(SETTINGS)
def test_one_unit_moves_what_is_noised_by_at_most_what_was_charged(
    setting: Setting, tmp_path: Path
) -> None:
    desk = Desk.make(tmp_path / "desk", setting)
    data = Neighbours(setting.case.task, setting.unit, setting.relation)
    # Given noise needs no calibration; how far a record moves a value doesn't depend on it.
    changes = (setting.case.more_noise,) if setting.case.more_noise else ()
    first = desk.run(*changes, records=data.without(), name="without")
    check_noise(first.trace)
    moved: dict[str, float] = {}
    for harmful in harmful_of(setting):
        records = data.having(harmful)
        name = harmful.replace("'", "")
        second = desk.run(*changes, records=records, replay=first.trace, name=name)
        found = differences(first, second)
        assert not set(first.trace.keys) & set(second.trace.keys)
        assert not found, (harmful, [str(each) for each in found[:5]])
        moved[harmful] = most_moved(desk, first, second, (data.without(), records))
    allowed = 2 if setting.relation == "replace_one" else 1
    assert max(moved.values()) <= allowed * (1 + ROUNDING), moved
    assert max(moved.values()) > 1e-3, "no record has moved anything: this case proves nothing"
    if setting.relation != "replace_one":
        for harmful in setting.case.unusable:
            assert moved[harmful] < NOTHING, harmful


def check_noise(trace: Trace) -> None:
    """Check that noise is drawn after its charge, as large as was charged, and never twice."""
    assert trace.charges
    for number, charge in enumerate(trace.charges, start=1):
        draws = trace.of_release(number)
        # Only a charge that covers other releases, whose rows follow it, has no noise of its own.
        assert draws or trace.charges[number].covered_by, f"{charge.what} has no noise"
        if not draws or draws[0].source not in SOURCES:
            continue
        for draw, multiplier in zip(draws, multipliers(trace, number), strict=True):
            assert multiplier > 0
            if draw.stated is not None:
                assert draw.std == pytest.approx(multiplier * draw.stated, rel=1e-12)
    assert len(set(trace.keys)) == len(trace.keys)
    noisy = [draw for draw in trace.draws if draw.source in SOURCES]
    for one, other in itertools.combinations(noisy, 2):
        size = min(one.noise.numel(), other.noise.numel())
        assert not torch.equal(one.noise.flatten()[:size], other.noise.flatten()[:size])


def most_moved(desk: Desk, first: Ran, second: Ran, records: tuple[Records, Records]) -> float:
    """Return how far any value was moved, in what was charged for one unit's presence."""
    found: list[float] = [0.0]
    for one, other in zip(first.trace.draws, second.trace.draws, strict=True):
        assert (one.source, one.std, one.over) == (other.source, other.std, other.over)
        bound = charged_for(first.trace, one)
        if one.part == "inside a solver":
            found.append(moved_inside(desk, first, one, records) / bound)
        elif one.part == "value":
            count = max(1, first.trace.charges[one.release - 1].count)
            found.append(distance(one.source, one.before, other.before, count=count) / bound)
        if one.monotone and desk.setting.relation != "replace_one":
            moved = other.before - one.before
            assert bool((moved >= 0).all() or (moved <= 0).all())
    return max(found)


def moved_inside(desk: Desk, run: Ran, inside: Draw, records: tuple[Records, Records]) -> float:
    """Return how far the noise that leads to one solution is apart for two sets of records."""
    solve = desk.setting.case.inside
    assert solve is not None, "a solver is given noise: state `inside` in the learner's entry"
    _, found = run.trace.of_release(inside.release)
    run_spec = load_spec(run.path / "config.yaml")
    with_noise, other = (solve(run_spec, each, found.before) for each in records)
    # The noise that was drawn is the noise of this solution, up to the solver's tolerance.
    assert distance("gaussian", with_noise, inside.after) < NOTHING * inside.std
    return distance("gaussian", with_noise, other)


@each(usual_settings(SOUND))
def test_the_model_is_a_function_of_what_was_released(setting: Setting, tmp_path: Path) -> None:
    # Other records, as many: all of them differ, and what was released is the same.
    desk = Desk.make(tmp_path / "desk", setting)
    first = desk.run(name="first")
    others = [ordinary(5000 + place, setting.case.task) for place in range(len(setting.records()))]
    second = desk.run(records=Records(others, setting.owners()), replay=first.trace, name="second")
    assert differences(first, second) == []
    moved = [
        not torch.equal(one.before, other.before)
        for one, other in zip(first.trace.draws, second.trace.draws, strict=True)
    ]
    assert any(moved)
