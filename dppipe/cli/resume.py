"""`dppipe resume`: continue an interrupted run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson, Plugins, RunPath
from dppipe.cli.printing.screen import say
from dppipe.cli.spec_file import first_rank

if TYPE_CHECKING:
    from rich.console import Console

    from dppipe.pipeline.audited import Audited
    from dppipe.planning.plan import Plan
    from dppipe.planning.tuning.tune_plan import TunePlan
    from dppipe.runs.directory import RunDirectory
    from dppipe.runs.outcome import Outcome
    from dppipe.spec.spec import Spec


def resume(
    run: RunPath,
    plugins: Plugins = None,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes",
            help="Continue although the optimizer or other settings of training changed.",
        ),
    ] = False,
    original_is_gone: Annotated[
        bool,
        typer.Option(
            "--original-is-gone",
            help="Continue in a copied or moved directory; the original is never used again.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Continue an interrupted run.

    What was charged stays charged, and lost steps aren't given back.
    """
    from rich.console import Console

    from dppipe.cli.run import show_outcome
    from dppipe.pipeline.resume import prepare_resume
    from dppipe.planning.tuning.tune_plan import TunePlan

    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    directory, spec, plan, taken = prepare_resume(
        run, plugins=plugins, accept_changes=accept_changes, original_is_gone=original_is_gone
    )
    if isinstance(plan, TunePlan):
        outcome = _resume_search(directory, spec, plan, console=console, plugins=plugins)
        show_outcome(outcome, as_json=as_json)
    else:
        _resume_run(directory, spec, plan, taken=taken, console=console, as_json=as_json)


def _resume_run(
    run: RunDirectory, spec: Spec, plan: Plan, *, taken: int, console: Console, as_json: bool
) -> None:
    """Go on with one run, after so many of its steps or releases."""
    from dppipe.cli.run import progress_bars, show_outcome
    from dppipe.pipeline.run import run_spec

    if first_rank():
        behind = f"{taken} of {plan.steps} steps are"
        if not plan.steps:
            behind = f"{taken} of {len(plan.releases)} releases are"
        console.print(f"{plan.name}: {behind} behind it")
    progress = progress_bars(plan, console, taken=taken)
    audited = _audited(run, spec, plan)
    outcome = run_spec(spec, plan, resume=run, callbacks=progress, audited=audited)
    if outcome is None:
        return
    if audited is not None:
        _show_audit(outcome, spec, audited, as_json=as_json)
        return
    show_outcome(outcome, as_json=as_json)


def _audited(run: RunDirectory, spec: Spec, plan: Plan) -> Audited | None:
    """Return the canaries of a run that is audited; None for any other run."""
    if not run.audit_plan.exists():
        return None
    from dppipe.audit.one_run.training import canaries_of_run

    return canaries_of_run(run, spec, plan)


def _show_audit(outcome: Outcome, spec: Spec, audited: Audited, *, as_json: bool) -> None:
    """Show how an audited run ended, and what its audit found."""
    from dppipe.audit.one_run.training import finish_audit
    from dppipe.cli.audit_training import REJECTED, show_result
    from dppipe.runs.showing.closing import closing_text

    if not as_json:
        say(closing_text(outcome))
    _, result = finish_audit(outcome, spec, audited)
    if not as_json:
        show_result(result, Path(outcome.run_dir), as_json=False)
        return
    typer.echo(json.dumps(outcome.to_data() | {"audit": result.to_data()}, indent=2))
    if result.rejected:
        raise typer.Exit(REJECTED)


def _resume_search(
    run: RunDirectory, spec: Spec, plan: TunePlan, *, console: Console, plugins: Path | None
) -> Outcome:
    """Go on with a private search."""
    from dppipe.cli.tune import searching
    from dppipe.pipeline.tuning.search import resume_search
    from dppipe.spec.kinds.registry import Registry

    with searching(console):
        return resume_search(run, spec, plan, registry=Registry(plugins))
