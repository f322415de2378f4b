"""`dppipe sweep`: a run for each point of a grid and each seed, then all of them compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins
from dppipe.cli.printing.wrapping import fit_terminal, short_path, table
from dppipe.errors import Interrupted, UsageError
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.pipeline.sweep.costs import SweepCost
    from dppipe.pipeline.sweep.directory import SweepDirectory
    from dppipe.pipeline.sweep.processes import Ended
    from dppipe.pipeline.sweep.sweep_run import SweepRun
    from dppipe.spec.yaml.files import SpecFiles

SomeFailed = 1
"""The exit code of a sweep in which some run has failed."""


def sweep(
    spec_path: Annotated[
        list[Path],
        typer.Argument(
            metavar="SPEC...",
            help="The spec's YAML file, or the directory of a sweep that goes on; of several "
            "files, each is laid over those before it.",
            show_default=False,
        ),
    ],
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid", metavar="KEY=[...]", help="Values to try, such as 'optimizer.lr=[0.1, 0.3]'."
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="How many seeds each setting runs with.")
    ] = 1,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, max=256, help="How many runs go on at a time.")
    ] = 1,
    overrides: Overrides = None,
    plugins: Plugins = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", metavar="DIR", help="Where the sweep's files go.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what the sweep would run and cost, and stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a grid of settings, and compare them.

    All runs are released, so their costs add up: the data is public (`data.public`), or a shared
    budget pays. What was stopped goes on with the same command, or with the sweep's directory.
    """
    from dppipe.pipeline.sweep.directory import begin, check_place, holding, new_sweep

    if len(spec_path) == 1 and spec_path[0].is_dir():
        given = bool(grid or overrides or plugins or run_dir or seeds != 1)
        _resume(spec_path[0], given=given, jobs=jobs, plan=plan, as_json=as_json)
        return
    grid_values = _grid(grid or [])
    runs = _planned(spec_path, grid_values, seeds, overrides=overrides, plugins=plugins)
    made = new_sweep(runs[0].spec.name, run_dir)
    cost = _cost(made, runs)
    _show_plan(runs, grid_values, cost, seeds=seeds, jobs=jobs, stop=plan, as_json=as_json)
    if plan:
        return
    cost.require()
    facts = {"grid": grid_values, "seeds": seeds, "plugins": str(plugins) if plugins else None}
    check_place(made)
    with holding(made):
        begin(made, runs, facts=facts)
        _run_all(made, [run.label for run in runs], jobs=jobs, plugins=plugins, as_json=as_json)


def _grid(given: Sequence[str]) -> dict[str, list[Any]]:
    from dppipe.pipeline.sweep.grid import read_grid

    return read_grid(given)


def _planned(
    files: SpecFiles,
    grid: dict[str, list[Any]],
    seeds: int,
    *,
    overrides: list[str] | None,
    plugins: Path | None,
) -> list[SweepRun]:
    from dppipe.pipeline.sweep.points import plan_runs

    return plan_runs(files, grid, seeds=seeds, overrides=overrides or (), plugins=plugins)


def _cost(made: SweepDirectory, runs: Sequence[SweepRun]) -> SweepCost:
    """Return the cost of a sweep; runs that have begun have reserved in their scope already."""
    from dppipe.pipeline.sweep.costs import sweep_cost

    waiting = []
    for number, run in enumerate(runs, start=1):
        if made.state(number) == "new":
            waiting.append(run)
    return sweep_cost(runs, to_start=waiting)


def _resume(path: Path, *, given: bool, jobs: int, plan: bool, as_json: bool) -> None:
    """Go on with a sweep by its directory alone."""
    from dppipe.pipeline.sweep.directory import SweepDirectory, holding, read_manifest
    from dppipe.pipeline.sweep.points import kept_runs

    if given:
        raise UsageError(
            f"{path}: expected no grid, seeds, plugins or overrides beside the directory of a "
            "sweep, which has its own. Only --jobs, --plan and --json go with it."
        )
    made = SweepDirectory(path)
    facts = read_manifest(made)
    plugins = Path(facts["plugins"]) if facts.get("plugins") else None
    runs = kept_runs(made, facts, plugins=plugins)
    cost = _cost(made, runs)
    grid = facts["grid"]
    _show_plan(runs, grid, cost, seeds=facts["seeds"], jobs=jobs, stop=plan, as_json=as_json)
    if plan:
        return
    cost.require()
    with holding(made):
        _run_all(made, [run.label for run in runs], jobs=jobs, plugins=plugins, as_json=as_json)


def _show_plan(
    runs: Sequence[SweepRun],
    grid: dict[str, list[Any]],
    cost: SweepCost,
    *,
    seeds: int,
    jobs: int,
    stop: bool,
    as_json: bool,
) -> None:
    """Say what the sweep runs and costs, before any run starts."""
    from dppipe.cli.printing.sweep import plan_data, plan_text

    if as_json and stop:
        typer.echo(json.dumps(plan_data(runs, grid, cost, seeds=seeds), indent=2))
        return
    typer.echo(plan_text(runs, grid, cost, seeds=seeds, jobs=jobs, refusal=stop), err=as_json)


def _run_all(
    made: SweepDirectory, labels: Sequence[str], *, jobs: int, plugins: Path | None, as_json: bool
) -> None:
    """Run what isn't finished, and compare all runs."""
    from dppipe.pipeline.sweep.processes import Processes

    numbers = [n for n in range(1, len(labels) + 1) if made.state(n) != "finished"]
    kept = len(labels) - len(numbers)
    told = f"{short_path(made.path)}: {len(numbers)} runs to go, {kept} finished before"
    typer.echo(told, err=as_json)
    failed: list[int] = []

    def ended(one: Ended) -> None:
        finished = made.state(one.number) == "finished"
        if not finished:
            failed.append(one.number)
        how = "finished" if finished else f"exit code {one.exit_code}"
        place = f"{one.number:>4} of {len(labels)}"
        line = f"{place}  {labels[one.number - 1]}  {how} after {one.seconds:.0f} s"
        typer.echo(line, err=as_json)

    stopped = Processes(made, jobs=jobs, plugins=plugins).run(numbers, ended=ended)
    if stopped is not None:
        command = shown_command("sweep", made.path)
        raise Interrupted(
            f"interrupted; finished runs are kept. Go on with `{command}`.", exit_code=128 + stopped
        )
    _compare(made, failed, as_json=as_json)


def _compare(made: SweepDirectory, failed: Sequence[int], *, as_json: bool) -> None:
    """Show all runs compared; end with an error where some have failed."""
    import sys

    from dppipe.cli.compare import show_comparison
    from dppipe.report.comparison.ranking import compare_runs
    from dppipe.report.comparison.reading import find_runs

    if any(made.path.glob("*/plan.json")):
        typer.echo("", err=as_json)
        show_comparison(compare_runs(find_runs([made.path])), as_json=as_json)
    if failed:
        logs = {f"run {number}": str(made.log(number)) for number in sorted(failed)}
        told = f"{len(failed)} runs have not finished; their logs say why:"
        typer.echo(f"\n{fit_terminal(told, stream=sys.stderr)}\n{table(logs)}", err=True)
        raise typer.Exit(SomeFailed)
