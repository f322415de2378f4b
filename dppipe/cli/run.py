"""`dppipe run`: train a model within its budget and leave a run directory."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins, SpecFiles
from dppipe.cli.printing.screen import say
from dppipe.cli.printing.wrapping import fit_terminal
from dppipe.cli.spec_file import first_rank, read_spec
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytorch_lightning as pl
    from rich.console import Console

    from dppipe.planning.plan import Plan
    from dppipe.runs.outcome import Outcome
    from dppipe.spec.spec import Spec


def run(
    spec_path: SpecFiles,
    overrides: Overrides = None,
    plugins: Plugins = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", metavar="DIR", help="Where the run's files go.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model under differential privacy.

    It ends when its steps are done or its budget is spent.
    """
    from rich.console import Console

    from dppipe.planning.privacy_plan import make_plan
    from dppipe.spec.load import placing_problems

    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    with placing_problems(spec_path, overrides=overrides or ()):
        spec = read_spec(spec_path, overrides=overrides, plugins=plugins)
        made = make_plan(spec)
        if first_rank():
            # Others of a group would see the room that the first has reserved by then.
            shared = shared_budget(spec, made)
            console.print(fit_terminal(f"{_opening(made)}{shared}", stream=console.file))
        from dppipe.pipeline.run import run_spec

        outcome = run_spec(spec, made, run_dir=run_dir, callbacks=progress_bars(made, console))
    if outcome is not None:
        show_outcome(outcome, as_json=as_json)


def show_outcome(outcome: Outcome, *, as_json: bool) -> None:
    """Print how a run ended."""
    from dppipe.runs.showing.closing import closing_text

    if as_json:
        typer.echo(json.dumps(outcome.to_data(), indent=2))
    else:
        say(closing_text(outcome))


def shared_budget(spec: Spec, plan: Plan) -> str:
    """Refuse a run that doesn't fit into its scope, else say what is left there.

    A run without a scope, whose records stand in one, gets a warning.
    """
    from dppipe.budgets.unscoped import unscoped_warning
    from dppipe.cli.printing.scope_outlook import refuse_unless_it_fits

    outlook = refuse_unless_it_fits(spec, plan)
    if outlook is not None:
        return "".join(f"\n{name}: {line}" for name, line in outlook.lines().items())
    warning = unscoped_warning(spec.data, private=plan.private)
    if warning is not None:
        typer.echo(fit_terminal(warning, stream=sys.stderr), err=True)
    return ""


def progress_bars(
    plan: Plan, console: Console, *, taken: int = 0
) -> list[Callable[[], pl.Callback]]:
    """Return makers of the callbacks that show the progress of steps."""
    from dppipe.lightning.progress import ProgressBar
    from dppipe.planning.step_plan import StepPlan

    if not isinstance(plan, StepPlan):
        return []
    return [partial(ProgressBar, plan, console=console, taken=taken)]


def _opening(plan: Plan) -> str:
    from dppipe.cli.printing.release_plan import releases_line
    from dppipe.planning.step_plan import StepPlan

    if not isinstance(plan, StepPlan):
        return releases_line(plan)
    if not plan.private:
        return f"{plan.name}: {plan.steps} steps, NOT PRIVATE"
    planned = f"planned: {shown(plan.epsilon or 0.0)} by {plan.accountant}"
    steps = f"{'at most ' if plan.schedule == 'filter' else ''}{plan.steps} steps"
    moving = " at first" if plan.schedule == "filter" or len(plan.noise) > 1 else ""
    earlier = ""
    if plan.earlier is not None:
        counted = "on disjoint records"
        if plan.earlier.records == "same":
            spent = plan.epsilon_after(0)
            left = max(0.0, (plan.budget_epsilon or 0.0) - spent)
            counted = f"epsilon {shown(spent)} is spent already, {left:.3g} is left"
        earlier = f"\nstarts from weights of {plan.earlier.names}: {counted}"
    return (
        f"{plan.name}: {steps} at noise multiplier {plan.noise_multiplier(1):.5g}{moving}\n"
        f"budget: epsilon {plan.budget_epsilon:g} at delta "
        f"{shown_delta(plan.delta or 0.0)}; {planned}{earlier}"
    )
