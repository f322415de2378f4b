"""The grid of a sweep: options with several values each, and every combination of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from dppipe.errors import Problem, SpecError

_NOT_SWEPT = {
    "version": "all runs are of one version",
    "name": "runs of one sweep have one name",
    "seed": "use --seeds",
    "reproducible": "all runs draw their noise alike",
    "tune": "`dppipe tune` searches within one run",
    "budget.scope": "one shared budget pays for the sweep",
    "data.public": "whether records need protection is no setting",
}
MOST = 1000
"""Runs of one sweep."""


def read_grid(given: Sequence[str]) -> dict[str, list[Any]]:
    """Read the values of each `--grid`, such as `optimizer.lr=[0.1, 0.3]`; say all that is wrong.

    A single value stands for a list of one.
    """
    grid: dict[str, list[Any]] = {}
    problems: list[Problem] = []
    for text in given:
        option, values, found = _read_axis(text)
        if option in grid:
            found.append(_problem(text, "expected each option once, got it again."))
        problems += found
        grid[option] = values
    if problems:
        raise _error(problems)
    return grid


def list_points(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of values, the last option's values changing fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def as_override(option: str, value: Any) -> str:
    """Return what `--set` would take for a value."""
    return f"{option}={json.dumps(value)}"


def _read_axis(text: str) -> tuple[str, list[Any], list[Problem]]:
    from dppipe.spec.yaml.reader import read_yaml

    option, equals, written = text.partition("=")
    option = option.strip()
    if not equals or not all(option.split(".")):
        return option, [], [_problem(text, "expected OPTION=[VALUE, ...], got no such pair.")]
    for name, why in _NOT_SWEPT.items():
        if option == name or option.startswith(f"{name}."):
            return option, [], [_problem(text, f"expected an option to vary, got {name}: {why}.")]
    read = read_yaml(written)
    if read.faults:
        return option, [], [_problem(text, fault.message) for fault in read.faults]
    values = read.data if isinstance(read.data, list) else [read.data]
    if not values:
        return option, [], [_problem(text, "expected at least one value, got none.")]
    problems = []
    seen: set[str] = set()
    for value in values:
        shown = json.dumps(value, default=str)
        if shown in seen:
            problems.append(_problem(text, f"expected each value once, got {shown} again."))
        seen.add(shown)
    return option, values, problems


def _problem(text: str, message: str) -> Problem:
    return Problem((), message, place=f"--grid {text}")


def _error(problems: Sequence[Problem]) -> SpecError:
    lines = [f"{problem.place}: {problem.message}" for problem in problems]
    return SpecError(problems, "\n".join(lines))
