"""`dppipe tune`: the best of a secret number of private runs, at one stated cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins, SpecFiles
from dppipe.cli.printing.wrapping import fit_terminal
from dppipe.cli.spec_file import read_spec
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from rich.console import Console

    from dppipe.planning.tuning.tune_plan import TunePlan


def tune(
    spec_path: SpecFiles,
    overrides: Overrides = None,
    plugins: Plugins = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", metavar="DIR", help="Where the run's files go.")
    ] = None,
    on: Annotated[
        Path | None,
        typer.Option(
            "--on",
            metavar="OTHER_SPEC",
            help="Try every candidate on the public records of another spec: no budget is spent.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Where --on writes the spec with the best settings."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search for good settings privately, and keep the best run.

    The spec's `tune` block has the candidates. `dppipe plan` says what the search costs.
    """
    if on is not None or output is not None:
        from dppipe.cli.tune_on import refuse_other_options, tune_on

        other = refuse_other_options(on, run_dir=run_dir)
        tune_on(
            spec_path, other, overrides=overrides, plugins=plugins, output=output, as_json=as_json
        )
        return
    _search(spec_path, run_dir, overrides=overrides, plugins=plugins, as_json=as_json)


def _search(
    spec_path: list[Path],
    run_dir: Path | None,
    *,
    overrides: list[str] | None,
    plugins: Path | None,
    as_json: bool,
) -> None:
    """Search privately, and print how the search has ended."""
    from rich.console import Console

    from dppipe.cli.run import shared_budget, show_outcome
    from dppipe.errors import UsageError
    from dppipe.planning.tuning.make_tune_plan import make_tune_plan
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.load import placing_problems
    from dppipe.spec.yaml.files import spec_name

    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    with placing_problems(spec_path, overrides=overrides or ()):
        spec = read_spec(spec_path, overrides=overrides, plugins=plugins)
        if spec.tune is None:
            raise UsageError(
                f"{spec_name(spec_path)}: expected a spec with a tune block, got one without. "
                "`dppipe run` makes one run; `dppipe recipes copy tuning/digits` copies a spec "
                "with the block."
            )
        registry = Registry(plugins)
        plan = make_tune_plan(spec, registry=registry)
        shared = shared_budget(spec, plan)
        console.print(fit_terminal(f"{_opening(plan)}{shared}", stream=console.file))
        from dppipe.pipeline.tuning.search import run_search

        with searching(console):
            outcome = run_search(spec, plan, run_dir=run_dir, registry=registry)
    show_outcome(outcome, as_json=as_json)


@contextmanager
def searching(console: Console) -> Iterator[None]:
    """Show that a search goes on, and for how long: nothing of its runs may be seen."""
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    if not console.is_terminal:
        console.print("searching")
        yield
        return
    columns = (TextColumn("searching"), TimeElapsedColumn())
    shown_time = Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    )
    with shown_time:
        shown_time.add_task("", total=None)
        yield


def _opening(plan: TunePlan) -> str:
    runs = plan.search.repetitions
    return (
        f"{plan.name}: a private search among {len(plan.search.candidates)} candidates; the number "
        f"of runs is secret, {runs.mean:g} on average\n"
        f"budget: epsilon {plan.budget_epsilon:g} at delta {shown_delta(plan.delta or 0.0)}; the "
        f"whole search costs {shown(plan.epsilon or 0.0)} by {plan.accountant}, charged before the "
        "first run"
    )
