"""The comparison: un-noised sums may differ by what the ledger has charged for, and nothing else may differ at all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from redteam.coupling import Release, Trace
from redteam.facts import Facts

ROUNDING = 1e-5
"""By how much, relative to the bound, two sums may differ beyond it: float32 adds up other rows in another order."""
FOLLOWERS = (
    "learning rate",
    "optimizer",
    "scheduler",
    "progress",
    "gradient",
    "loss",
    "torch",
    "numpy",
    "random",
)
"""What may not follow a private holdout."""
SHOWN = 8
"""How many differences a report lists."""


@dataclass
class Observed:
    """All that was seen of one run."""

    trace: Trace
    ended: Facts
    """Exit code, exception and message."""
    console: Facts
    messages: Facts
    """Warnings and log messages."""
    files: dict[str, Facts] = field(default_factory=dict)

    def rows(self) -> dict[int, tuple[str, float]]:
        """Return mechanism and noise multiplier of each step from the ledger, which anybody can read.

        What is released before the first step stands at 0, as its row has no step.
        """
        ledger = next(
            (facts for name, facts in self.files.items() if name.endswith("ledger.jsonl")), {}
        )
        charged = {}
        for place, value in ledger.items():
            n, _, name = place.partition(".")
            if name == "step":
                mechanism = ledger[f"{n}.mechanism"].strip("'")
                charged[int(value)] = (mechanism, float(ledger[f"{n}.noise_multiplier"]))
            elif name == "what":
                mechanism = "laplace" if "Laplace" in ledger[f"{n}.event.type"] else "gaussian"
                charged[0] = (mechanism, float(ledger[f"{n}.event.noise_multiplier"]))
        return charged


@dataclass(frozen=True)
class Difference:
    """One thing by which the two runs can be told apart."""

    step: int | None
    place: str
    what: str
    first: str
    second: str

    def __str__(self) -> str:
        step = "" if self.step is None else f"step {self.step}, "
        return f"{step}{self.place}: {self.what}: {self.first} | {self.second}"


@dataclass(frozen=True)
class Verdict:
    """What a pair of runs differs in, the first difference first."""

    differences: list[Difference]
    distances: dict[int, float]
    """By how many bounds the un-noised sums of each step differ."""
    ended: Facts
    """How the first run ended."""
    console: Facts
    """What the first run has printed."""
    units: list[str]
    """What the first run has drawn from."""

    def report(self) -> str:
        """Say what differed first, then the places of everything else."""
        if not self.differences:
            return "the runs can't be told apart"
        first_of_each: dict[str, Difference] = {}
        for difference in self.differences:
            first_of_each.setdefault(difference.what, difference)
        listed = "\n  ".join(map(str, list(first_of_each.values())[:SHOWN]))
        places = Counter(difference.place for difference in self.differences)
        counts = ", ".join(f"{place} ({count})" for place, count in places.items())
        return f"the runs can be told apart (with the record | without it). First:\n  {listed}\nIn all: {counts}"


def compare(
    first: Observed, second: Observed, *, relation: str, in_holdout: bool = False
) -> Verdict:
    """Return everything by which two runs differ that isn't covered by noise.

    `in_holdout` is for records of a private holdout: metrics may then differ in memory, since they aren't private; what follows
    them may not, and no file may show them but under `nonprivate/`.
    """
    distances = moved_bounds(first, second, relation=relation)
    found = [
        Difference(step, "un-noised sum", "moved by", f"{distance:.4f} bounds", "at most 1")
        for step, distance in distances.items()
        if not distance <= 1 + ROUNDING
    ]
    found += _differing_records(first.trace, second.trace, relation)
    found += _differing_releases(first.trace, second.trace)
    found += _differing_notes(first.trace, second.trace, in_holdout)
    found.sort(key=lambda difference: math.inf if difference.step is None else difference.step)
    for place in ("ended", "console", "messages"):
        found += differing_facts(getattr(first, place), getattr(second, place), place)
    for name in sorted(first.files.keys() | second.files.keys()):
        found += differing_facts(first.files.get(name), second.files.get(name), f"file {name}")
    return Verdict(found, distances, first.ended, first.console, first.trace.units)


def moved_bounds(first: Observed, second: Observed, *, relation: str) -> dict[int, float]:
    """Return by how many bounds the un-noised sums of each step differ, over all that the step releases.

    A step that is charged at noise multiplier z may move its releases by 1 / z standard deviations together, or by
    1 / z scales of Laplace noise; under replace_one by twice that, since accountants then double what z is
    measured by. Where a sampler picks a unit k times, k times as much: its event counts the picks.
    """
    charged = first.rows()
    squares: dict[int, float] = {}
    for mine, other in zip(first.trace.releases, second.trace.releases, strict=False):
        if mine.step not in charged:
            squares[mine.step] = math.inf  # a release without a row
            continue
        mechanism, multiplier = charged[mine.step]
        share = multiplier / (2 if relation == "replace_one" else 1) / first.trace.picks(mine.step)
        moved = share * _distance(mine, other, order=1 if mechanism == "laplace" else 2)
        squares[mine.step] = squares.get(mine.step, 0.0) + moved**2
    return {step: math.sqrt(square) for step, square in squares.items()}


def _distance(mine: Release, other: Release, *, order: int) -> float:
    if mine.before.shape != other.before.shape:
        return math.inf
    return float((mine.before.double() - other.before.double()).norm(order)) / mine.std


def _differing_records(first: Trace, second: Trace, relation: str) -> Iterator[Difference]:
    """Compare what there was to draw from: one unit may differ, and only it."""
    mine, other = first.units, second.units
    if not mine or not other:
        return
    if relation == "add_remove":
        apart = len(set(mine) ^ set(other))
    else:
        apart = abs(len(mine) - len(other)) + sum(a != b for a, b in zip(mine, other, strict=False))
        for number, (drawn, again) in enumerate(zip(first.draws, second.draws, strict=False)):
            if drawn != again:
                yield Difference(
                    number + 1, "draws", "places of the drawn units", str(drawn), str(again)
                )
    if apart > 1:
        yield Difference(0, "split", "training units that differ", str(apart), "at most 1")


def _differing_releases(first: Trace, second: Trace) -> Iterator[Difference]:
    for mine, other in zip(first.releases, second.releases, strict=False):
        kinds = [
            (each.step, each.source, each.std, each.over, list(each.before.shape))
            for each in (mine, other)
        ]
        if kinds[0] != kinds[1]:
            yield Difference(
                mine.step, "noise", "source, size, divisor or shape", str(kinds[0]), str(kinds[1])
            )
    if len(first.releases) != len(second.releases):
        last = min(len(first.releases), len(second.releases))
        step = (first.releases + second.releases)[last].step if last else 0
        yield Difference(
            step, "noise", "number of releases", str(len(first.releases)), str(len(second.releases))
        )


def _differing_notes(first: Trace, second: Trace, in_holdout: bool) -> Iterator[Difference]:
    for mine, other in zip(first.notes, second.notes, strict=False):
        if mine[:2] != other[:2]:
            yield Difference(
                mine[0],
                "hooks",
                "order",
                f"step {mine[0]}, {mine[1]}",
                f"step {other[0]}, {other[1]}",
            )
            return
        step, place, facts = mine
        for difference in differing_facts(facts, other[2], place, step=step):
            if not in_holdout or difference.what.startswith(FOLLOWERS):
                yield difference
    if len(first.notes) != len(second.notes):
        last = min(len(first.notes), len(second.notes))
        step = max(first.notes, second.notes, key=len)[last][0]
        yield Difference(
            step, "hooks", "number of calls", str(len(first.notes)), str(len(second.notes))
        )


def differing_facts(
    first: Facts | None, second: Facts | None, place: str, *, step: int | None = None
) -> list[Difference]:
    """Return the facts that two runs don't share."""
    if first is None or second is None:
        names = ["there" if facts is not None else "missing" for facts in (first, second)]
        return [] if first is second else [Difference(step, place, "the file", *names)]
    keys = [*first, *(key for key in second if key not in first)]
    return [
        Difference(step, place, key, first.get(key, "missing"), second.get(key, "missing"))
        for key in keys
        if first.get(key) != second.get(key)
    ]
