"""From a grid to its runs: each is a spec of its own, checked and planned before any starts.

Problems of all runs are reported at once, each with the `--grid` value that has caused it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.errors import DppipeError, PrivacyRefusal, Problem, SpecError, UsageError
from dppipe.pipeline.sweep.grid import MOST, as_override, list_points
from dppipe.pipeline.sweep.sweep_run import SweepRun
from dppipe.spec.load import load_spec, placing_problems
from dppipe.spec.messages.layout import Refusal, SpecRefusal
from dppipe.spec.spec import spec_hash

if TYPE_CHECKING:
    from dppipe.pipeline.sweep.directory import SweepDirectory
    from dppipe.planning.plan import Plan
    from dppipe.spec.yaml.files import SpecFiles


def plan_runs(
    files: SpecFiles,
    grid: Mapping[str, Sequence[Any]],
    *,
    seeds: int,
    overrides: Sequence[str] = (),
    plugins: Path | None = None,
) -> list[SweepRun]:
    """Return the planned runs of a grid; a SpecError or PrivacyRefusal says all that is wrong.

    Args:
        files: The spec's file, or several, each laid over those before it.
        grid: The values of each option.
        seeds: How many seeds each setting runs with, from the spec's own upwards.
        overrides: `KEY=VALUE` each, for every run.
        plugins: The folder of plugin files.
    """
    points = list_points(grid)
    if len(points) * seeds > MOST:
        raise UsageError(
            f"--grid: expected at most {MOST} runs, got {len(points)} settings with {seeds} seeds "
            "each. Leave values out."
        )
    runs: list[SweepRun] = []
    errors: list[tuple[dict[str, Any], DppipeError]] = []
    for options in points:
        try:
            runs += _runs_of_point(
                files, options, seeds=seeds, overrides=overrides, plugins=plugins
            )
        except DppipeError as error:
            errors.append((options, error))
    if errors:
        raise _whole_error(errors)
    _refuse_equal(runs)
    return runs


def kept_runs(
    sweep: SweepDirectory, manifest: Mapping[str, Any], *, plugins: Path | None
) -> list[SweepRun]:
    """Return the planned runs of a sweep that has begun; refuse a spec that was changed since."""
    from dppipe.planning.privacy_plan import make_plan

    plans: dict[str, Plan] = {}
    runs: list[SweepRun] = []
    listed = zip(manifest["runs"], manifest["specs"], strict=True)
    for number, (run, hashed) in enumerate(listed, start=1):
        path = sweep.spec(number)
        with placing_problems(path):
            spec = load_spec(path, plugins=plugins)
            if spec_hash(spec) != hashed:
                raise UsageError(
                    f"{path}: expected the spec that the sweep began with, got another. Start a "
                    "new sweep."
                )
            setting = repr(run["options"])
            if setting not in plans:
                plans[setting] = make_plan(spec)
        runs.append(SweepRun(run["options"], spec, plans[setting]))
    return runs


def _refuse_equal(runs: Sequence[SweepRun]) -> None:
    """Refuse two runs of one spec, such as of the values 1 and 1.0."""
    seen: dict[str, SweepRun] = {}
    for run in runs:
        other = seen.setdefault(spec_hash(run.spec), run)
        if other is not run:
            raise UsageError(
                f"--grid: expected settings that differ, got the same spec from {other.label!r} "
                f"and {run.label!r}."
            )


def _runs_of_point(
    files: SpecFiles,
    options: Mapping[str, Any],
    *,
    seeds: int,
    overrides: Sequence[str],
    plugins: Path | None,
) -> list[SweepRun]:
    """Return one run for each seed; their plans are equal, as no cost depends on the seed."""
    from dppipe.planning.privacy_plan import make_plan

    settings = [*overrides, *(as_override(name, value) for name, value in options.items())]
    with placing_problems(files, overrides=settings):
        spec = load_spec(files, overrides=settings, plugins=plugins)
        if spec.tune is not None:
            raise SpecError(
                [Problem(("tune",), "expected a spec of one run, got a private search. Remove it.")]
            )
        plan = make_plan(spec)
    runs = []
    for number in range(seeds):
        seeded = spec.model_copy(update={"seed": spec.seed + number})
        runs.append(SweepRun(options, seeded, plan))
    return runs


def _whole_error(errors: Sequence[tuple[dict[str, Any], DppipeError]]) -> DppipeError:
    """Return one error for all points.

    Where the spec is at fault whatever the grid says, it is the error of the spec alone.
    """
    found: dict[tuple[str, str], Problem] = {}
    for options, error in errors:
        for problem in _problems(options, error):
            found.setdefault((problem.place, _text(problem)), problem)
    problems = list(found.values())
    if not any(problem.place.startswith("--grid") for problem in problems):
        return errors[0][1]
    lines = "\n".join(_text(problem) for problem in problems)
    if all(isinstance(problem, Refusal) for problem in problems):
        return SpecRefusal(problems, lines)
    return SpecError(problems, lines)


def _problems(options: Mapping[str, Any], error: DppipeError) -> list[Problem]:
    """Return the problems of a point, at the values of the grid that have caused them."""
    if not isinstance(error, SpecError | SpecRefusal):
        kind = Refusal if isinstance(error, PrivacyRefusal) else Problem
        grid = ", ".join(as_override(name, value) for name, value in options.items())
        return [kind((), str(error), place=f"--grid {grid}" if grid else "")]
    renamed = {}
    for name, value in options.items():
        override = as_override(name, value)
        renamed[f"--set {override}"] = f"--grid {override}"
    placed = []
    for problem in error.problems:
        placed.append(replace(problem, place=renamed.get(problem.place, problem.place)))
    return placed


def _text(problem: Problem) -> str:
    where = ".".join(map(str, problem.path))
    parts = [problem.place, where, problem.message]
    return ": ".join(part for part in parts if part)
