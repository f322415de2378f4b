"""Epsilon along a run, at so many of its steps that a staircase through them is close.

Guarantee: each epsilon is at least that of the steps up to it (`PROOF.md`, lemma 18), and a later
step never costs less. So the epsilon of the next point is an upper bound at every step before it.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dppipe.privacy.events.coarsening import coarsened
from dppipe.privacy.pld.distributions import exposure
from dppipe.privacy.pld.intervals import losses_on_grid, one_direction
from dppipe.privacy.pld.profiles import estimated
from dppipe.privacy.pld.spectra import Direction, Sum

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation
    from dppipe.privacy.events.sequences import Steps
    from dppipe.privacy.pld.distributions import Losses

    Runs = Sequence[tuple[Losses, int]]

_COARSE = 1e-3
_VARIANCE = 64.0
"""Of a loss, in squared intervals: then the grid adds about a thousandth to epsilon."""
_CLOSE = 0.003
"""How far two points in a row may be apart, as a part of epsilon."""
_CLOSE_ROUNDED = 0.0015
"""The same where noise multipliers were rounded, which adds to epsilon too."""
_CLOSE_AT_LEAST = 6e-4
_BLOCK = 8
"""By what factor the steps grow for which one tilt serves."""
_LATER = 1 + 2.0**-49


def followed(
    before: Mapping[DpEvent, int],
    steps: Steps,
    at: Sequence[int],
    *,
    delta: float,
    relation: Relation,
    distinct: int | None,
) -> list[tuple[int, float]] | None:
    """Return step counts with epsilon after them, close to each other; None if it can't be done.

    Args:
        before: Events before the first step, each with its count.
        steps: Canonical events in their order.
        at: Counts that are among the points, in ascending order; the last is that of all steps.
        delta: Where epsilon is read.
        relation: What neighbouring datasets differ in.
        distinct: The most distinct events to compose; others are rounded onto them.
    """
    stages = [dict(before), *({event: count} for event, count in steps)]
    rounded, rounding = coarsened(stages, distinct=distinct)
    events = {event for stage in rounded for event in stage}
    for event in events:
        if exposure(event, relation=relation) or estimated(event, relation=relation):
            return None
    made = _on_grid(rounded, relation=relation)
    first = [(made[event], count) for event, count in rounded[0].items()]
    runs: list[tuple[Losses, int]] = []
    for stage in rounded[1:]:
        for event, count in stage.items():
            if runs and runs[-1][0] is made[event]:
                runs[-1] = (made[event], runs[-1][1] + count)
            else:
                runs.append((made[event], count))
    close = _CLOSE_ROUNDED if rounding else _CLOSE
    return list(_Walk(first, runs, delta=delta, close=close).points(at))


def _on_grid(
    stages: Sequence[Mapping[DpEvent, int]], *, relation: Relation
) -> Mapping[DpEvent, Losses]:
    """Return each event's losses, on a grid that is fine beside their spread."""
    made, interval = losses_on_grid(stages, relation=relation, finest=_COARSE)
    whole: dict[Losses, int] = {}
    for stage in stages:
        for event, count in stage.items():
            whole[made[event]] = whole.get(made[event], 0) + count
    variances = []
    for direction in (0, 1):
        counted = one_direction(whole, direction)
        spread = math.fsum(count * pmf.variance for pmf, count in counted.items())
        variances.append(spread / max(1, sum(counted.values())))
    finer = interval * math.sqrt(max(variances) / _VARIANCE)
    if interval < _COARSE or finer >= interval:
        return made
    return losses_on_grid(stages, relation=relation, finest=max(finer, 1e-4))[0]


class _State(NamedTuple):
    sums: tuple[Sum, ...]
    epsilon: float
    places: tuple[int, ...]


class _Walk:
    """One walk along a run."""

    def __init__(self, before: Runs, runs: Runs, *, delta: float, close: float) -> None:
        self._before = before
        self._runs = runs
        self._delta = delta
        self._close = close
        self._ends: list[int] = []
        for _, count in runs:
            self._ends.append(count + (self._ends[-1] if self._ends else 0))
        self._interval = (before or runs)[0][0].interval

    def points(self, at: Sequence[int]) -> Iterator[tuple[int, float]]:
        """Yield points in ascending order, those `at` among them."""
        ends = _blocks(at[-1])
        wanted = sorted({*at, *ends})
        done = 0
        length = 1
        last = 0.0
        for low, high in zip([0, *ends], ends, strict=False):
            directions = self._directions(high)
            state = self._start(directions, low)
            if low == 0 and at[0] == 0:
                state = self._read(directions, state)
                last = state.epsilon
                yield 0, last
            state = state._replace(epsilon=last)
            done = low
            while done < high:
                next_wanted = wanted[bisect.bisect_right(wanted, done)]
                count = min(done + length, next_wanted)
                found = self._read(directions, self._moved(directions, state, done, count))
                rise = found.epsilon - last
                allowed = max(_CLOSE_AT_LEAST, self._close * last)
                if rise > allowed and count > done + 1 and math.isfinite(rise):
                    length = max(1, (count - done) // 2)
                    continue
                done_now = count - done
                state = self._shortened(directions, found)
                last = max(last, found.epsilon)
                done = count
                yield done, last
                length = _next_length(done_now, length, rise, allowed)

    def _directions(self, high: int) -> list[Direction]:
        whole: dict[Losses, int] = {}
        for losses, count in [*self._before, *self._between(0, high)]:
            whole[losses] = whole.get(losses, 0) + count
        number = max(len(losses.pmfs) for losses in whole)
        return [Direction(whole, place, interval=self._interval) for place in range(number)]

    def _start(self, directions: Sequence[Direction], low: int) -> _State:
        counts: dict[Losses, int] = {}
        for losses, count in [*self._before, *self._between(0, low)]:
            counts[losses] = counts.get(losses, 0) + count
        sums = []
        for direction in directions:
            made = direction.nothing()
            for losses, count in counts.items():
                made = direction.added(made, losses, count)
            sums.append(made)
        return _State(tuple(sums), 0.0, (1,) * len(sums))

    def _between(self, low: int, high: int) -> Iterator[tuple[Losses, int]]:
        place = bisect.bisect_right(self._ends, low)
        while low < high:
            end = min(self._ends[place], high)
            yield self._runs[place][0], end - low
            low = end
            place += 1

    def _moved(self, directions: Sequence[Direction], state: _State, low: int, high: int) -> _State:
        sums = []
        for direction, had in zip(directions, state.sums, strict=True):
            made = had
            for losses, count in self._between(low, high):
                made = direction.added(made, losses, count)
            sums.append(made)
        return state._replace(sums=tuple(sums))

    def _read(self, directions: Sequence[Direction], state: _State) -> _State:
        """Read epsilon: that of the worse direction."""
        epsilon = 0.0
        places = []
        for direction, made, place in zip(directions, state.sums, state.places, strict=True):
            certain = math.floor(epsilon / self._interval)
            if epsilon and direction.delta(made, certain) <= self._delta:
                places.append(place)  # this direction is not the worse one
                continue
            found, least = self._least(direction, made, place)
            epsilon = max(epsilon, found)
            places.append(least)
        return _State(state.sums, epsilon, tuple(places))

    def _least(self, direction: Direction, made: Sum, guess: int) -> tuple[float, int]:
        """Return the least epsilon whose delta is small enough, and its place on the grid."""
        if made.infinite_loss() >= self._delta:
            return math.inf, guess
        known: dict[int, float] = {}

        def delta_at(place: int) -> float:
            if place not in known:
                known[place] = direction.delta(made, place)
            return known[place]

        low, high = _bracket(delta_at, guess, self._delta, slope=direction.slope)
        if high == 0:
            return 0.0, 1
        more, less = delta_at(low), delta_at(high)
        part = math.log1p((more - self._delta) / (more - less) * math.expm1(self._interval))
        return (low * self._interval + part) * _LATER, high

    def _shortened(self, directions: Sequence[Direction], state: _State) -> _State:
        sums = []
        for direction, made, place in zip(directions, state.sums, state.places, strict=True):
            sums.append(direction.shortened(made, place))
        return state._replace(sums=tuple(sums))


def _bracket(
    delta_at: Callable[[int], float], guess: int, target: float, *, slope: float
) -> tuple[int, int]:
    """Return neighbouring places between which delta falls to the target; -1 and 0 if it is below.

    The logarithm of a delta falls about as steeply as the tilt, from which the search starts.
    """
    low = -1
    high: int | None = None
    place = max(1, guess)
    before: tuple[int, float] | None = None
    tries = 0
    while high is None or high - low > 1:
        value = math.log(max(delta_at(place), 1e-300) / target)
        if value <= 0:
            high = place
        else:
            low = place
        if before is not None and before[0] != place and before[1] != value:
            slope = max(1e-9, (before[1] - value) / (place - before[0]))
        before = (place, value)
        tries += 1
        if high is not None and tries > 8:
            place = (low + high) // 2
            continue
        moved = place + max(1, math.ceil(value / slope)) if value > 0 else place
        if value <= 0:
            moved = place - max(1, math.floor(-value / slope))
        place = max(low + 1, 0, moved)
        if high is not None:
            place = min(place, max(high - 1, 0))
    return low, high


def _blocks(steps: int) -> list[int]:
    """Return the ends of blocks of steps, each some times as long as all before it."""
    ends = [steps]
    while ends[0] > 2 * _BLOCK:
        ends.insert(0, -(-ends[0] // _BLOCK))
    return ends


def _next_length(taken: int, length: int, rise: float, allowed: float) -> int:
    """Return how many steps to take next, so that epsilon rises by a little less than allowed."""
    if rise <= 0 or not math.isfinite(rise):
        return max(length, 2 * taken)
    return max(1, min(2 * taken, int(0.9 * taken * allowed / rise)))
