"""Audits of whole trainings: one run with canaries, many runs, or the files of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dppipe.cli.printing.screen import say
from dppipe.cli.printing.wrapping import fit_terminal, short_path, table

if TYPE_CHECKING:
    from dppipe.audit.one_run.plan import Kind
    from dppipe.audit.one_run.result import Result
    from dppipe.spec.yaml.files import SpecFiles

REJECTED = 4
"""The exit code of an audit that contradicts the claim."""


def audit_one_run(
    spec_path: SpecFiles,
    *,
    overrides: list[str] | None = None,
    plugins: Path | None = None,
    canaries: str = "reserved",
    number: int | None = None,
    out: Path | None = None,
    on_data: bool = False,
    as_json: bool = False,
) -> None:
    """Train a spec once with canaries in it, and show what that contradicts."""
    from rich.console import Console

    from dppipe.audit.one_run.training import audit_training
    from dppipe.cli.run import progress_bars
    from dppipe.cli.spec_file import read_spec
    from dppipe.planning.privacy_plan import make_plan
    from dppipe.spec.load import placing_problems

    kind = _kind(canaries)
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    with placing_problems(spec_path, overrides=overrides or ()):
        spec = read_spec(spec_path, overrides=overrides, plugins=plugins)
        bars = progress_bars(make_plan(spec), console)
        outcome, result = audit_training(
            spec, kind=kind, number=number, run_dir=out, on_data=on_data, callbacks=bars
        )
    show_result(result, Path(outcome.run_dir), as_json=as_json)


def audit_run_directory(
    run_dir: Path, *, out: Path | None = None, plugins: Path | None = None, as_json: bool
) -> None:
    """Work the audit of a run out again from its files; of an ordinary run, audit its step."""
    from dppipe.audit.one_run.result import assess
    from dppipe.pipeline.load import load_network, spec_of
    from dppipe.runs.directory import RunDirectory

    run = RunDirectory.open(run_dir)
    if run.audit_plan.exists():
        show_result(assess(run), run.path, as_json=as_json)
        return
    from dppipe.audit.probes.audit_spec import audit
    from dppipe.cli.audit_report import show_report
    from dppipe.cli.printing.audit import progress_bar

    spec = spec_of(run, plugins=plugins)
    weights = load_network(run, spec).state_dict()
    with progress_bar() as progress:
        report = audit(spec, weights=weights, progress=progress)
    show_report(report, out or Path("audits") / spec.name, as_json=as_json)


def audit_many_runs(
    spec_path: SpecFiles,
    *,
    runs: int,
    overrides: list[str] | None = None,
    plugins: Path | None = None,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Train a spec many times with and without a canary, and show what that contradicts."""
    from dppipe.audit.many_runs import audit_by_many_runs
    from dppipe.cli.spec_file import read_spec
    from dppipe.runs.directory import write_json
    from dppipe.runs.statement.audit_findings import rounded_down, shown_p
    from dppipe.spec.load import placing_problems

    def tell(done: int, of: int) -> None:
        if done == of or done % max(1, of // 10) == 0:
            typer.echo(f"{done} of {of} trainings", err=True)

    _refuse_missing(out)
    with placing_problems(spec_path, overrides=overrides or ()):
        spec = read_spec(spec_path, overrides=overrides, plugins=plugins)
        result = audit_by_many_runs(spec, runs=runs, tell=tell)
    if out is not None:
        write_json(out / "audit.json", result.to_data())
    if as_json:
        typer.echo(json.dumps(result.to_data(), indent=2))
    else:
        counts = result.counts
        say(fit_terminal(result.verdict, stream=sys.stdout))
        facts = {
            "claim": f"epsilon {result.claimed_epsilon:.4g} at delta {result.delta:g} at most",
            "audit bound": f"epsilon {rounded_down(result.epsilon_lower)} at least, with "
            f"{100 * (1 - result.level):g} %; could show {rounded_down(result.ceiling)}",
            "the claim's curve": f"p = {shown_p(result.p_value)}, rejected below {result.level:g}",
            "guessed in": f"{counts.hits_with} of {counts.draws_with} with the canary, "
            f"{counts.hits_without} of {counts.draws_without} without",
            "ESTIMATE": f"epsilon {result.normal_epsilon:.3f} if losses are normal",
            "records": "made up: none was read",
        }
        say(table(facts))
    if result.rejected:
        raise typer.Exit(REJECTED)


def _refuse_missing(out: Path | None) -> None:
    """Make the folder of the results before hours of training are spent."""
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            from dppipe.errors import UsageError

            raise UsageError(
                f"{out}: expected a folder that can be made, got: {error.strerror}."
            ) from None


def show_result(result: Result, run: Path, *, as_json: bool) -> None:
    """Print a result, the verdict first, draw it, and end with 4 if the claim is rejected."""
    from dppipe.audit.one_run.picture import draw_bounds

    picture = draw_bounds(result, run / "audit" / "bounds.png")
    if as_json:
        typer.echo(json.dumps(result.to_data(), indent=2))
    else:
        say(fit_terminal(result.verdict, stream=sys.stdout))
        say(table(_facts(result, run, picture)))
    if result.rejected:
        raise typer.Exit(REJECTED)


def _facts(result: Result, run: Path, picture: Path | None) -> dict[str, str]:
    """Return the lines below the verdict."""
    from dppipe.privacy.printing import shown, shown_delta
    from dppipe.runs.statement.audit_findings import rounded_down, shown_p

    plan = result.plan
    bounds = result.bounds
    said = f"epsilon {shown(result.claimed_epsilon)} at delta {shown_delta(plan.delta)} at most"
    least = f"epsilon {rounded_down(bounds.epsilon_lower)} at least, with {_confidence(result)}"
    facts = {
        "claim": f"{said}, by {result.accountant}",
        "audit bound": f"{least}; could show {rounded_down(bounds.ceiling)}",
        "Gaussian family": f"epsilon {rounded_down(bounds.gaussian_family)} at least, if the run "
        f"is Gaussian-like; could show {rounded_down(bounds.gaussian_family_ceiling)}",
        "the run's curve": f"p = {shown_p(bounds.p_value)}, rejected below {plan.level:g}",
        "guesses": f"{bounds.right} of {plan.guesses} right",
        "canaries": f"{plan.number} {plan.canaries}",
        "ESTIMATE": f"epsilon {result.normal_epsilon:.3f} if scores are normal",
    }
    if result.black_box is not None:
        outside = result.black_box
        p_value = shown_p(outside.p_value)
        facts["black box"] = (
            f"epsilon {rounded_down(outside.epsilon_lower)} at least; p = {p_value}"
        )
    if result.steps_seen < result.steps_charged:
        facts["releases seen"] = f"{result.steps_seen} of {result.steps_charged}"
    facts["records"] = "made up: none was read" if plan.made_up else "the spec's own, charged"
    facts["run"] = short_path(str(run))
    if picture is not None:
        facts["picture"] = short_path(str(picture))
    return facts


def _confidence(result: Result) -> str:
    return f"{100 * (1 - result.plan.level):g} %"


def _kind(canaries: str) -> Kind:
    from dppipe.errors import UsageError

    if canaries == "reserved":
        return "reserved"
    if canaries == "inputs":
        return "inputs"
    raise UsageError(f"--canaries: expected reserved or inputs, got {canaries!r}.")
