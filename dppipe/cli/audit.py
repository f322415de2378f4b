"""`dppipe audit`: does the code do what is charged? Probes on made-up records, or whole trainings.

A spec gets the probes of `dppipe/audit/probes`. `--one-run` and `--runs` train; a run directory is
audited from its files, or by the probes at its last weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins
from dppipe.cli.spec_file import read_spec
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.spec.yaml.files import SpecFiles

Target = Annotated[
    list[Path],
    typer.Argument(
        metavar="TARGET...",
        help="A spec's YAML file, or several that are laid over each other; or a run directory.",
        show_default=False,
    ),
]
OneRun = Annotated[
    bool, typer.Option("--one-run", help="Train once, with canaries whose presence is guessed.")
]
Canaries = Annotated[
    str | None,
    typer.Option(
        "--canaries",
        metavar="KIND",
        help="Of --one-run: reserved (coordinates of their own) or inputs (made-up records).",
    ),
]
Number = Annotated[
    int | None,
    typer.Option("--number", metavar="M", help="Of --one-run: how many canaries."),
]
Runs = Annotated[
    int | None, typer.Option("--runs", min=2, metavar="R", help="Train so often, in two worlds.")
]
OnData = Annotated[
    bool,
    typer.Option("--on-data", help="Of --one-run: train on the spec's own records, and pay."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Where the files go; audits/NAME if not given."),
]


def audit(
    target: Target,
    one_run: OneRun = False,
    canaries: Canaries = None,
    number: Number = None,
    runs: Runs = None,
    on_data: OnData = False,
    out: Out = None,
    overrides: Overrides = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Test a claim: does the code do what is charged?

    A spec is tested by probes on made-up records. Nothing is read, and nothing is spent. A claim
    that is rejected ends the command with exit code 4.
    """
    from dppipe.cli.audit_training import audit_many_runs, audit_one_run, audit_run_directory

    only_one_run = {"--canaries": canaries, "--number": number, "--on-data": on_data or None}
    _refuse_together(only_one_run, one_run=one_run, runs=runs)
    directories = [path for path in target if path.is_dir()]
    if directories:
        directory = directories[0]
        if one_run or runs is not None or overrides or len(target) > 1:
            raise UsageError(
                f"{directory}: expected a run directory alone, got options that need a spec. Leave "
                "out --one-run, --runs, --set and other files, or name the spec."
            )
        audit_run_directory(directory, out=out, plugins=plugins, as_json=as_json)
        return
    chosen: dict[str, Any] = {
        "overrides": overrides,
        "plugins": plugins,
        "out": out,
        "as_json": as_json,
    }
    if one_run:
        kind = canaries or "reserved"
        audit_one_run(target, canaries=kind, number=number, on_data=on_data, **chosen)
    elif runs is not None:
        audit_many_runs(target, runs=runs, **chosen)
    else:
        audit_spec(target, **chosen)


def audit_spec(
    path: SpecFiles,
    *,
    overrides: list[str] | None,
    plugins: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Probe a spec's releases, show the report, and write its files."""
    from dppipe.audit.probes.audit_spec import audit as audit_releases
    from dppipe.cli.audit_report import show_report
    from dppipe.cli.printing.audit import progress_bar
    from dppipe.spec.load import placing_problems

    with placing_problems(path, overrides=overrides or ()):
        spec = read_spec(path, overrides=overrides, plugins=plugins)
        with progress_bar() as progress:
            report = audit_releases(spec, progress=progress)
    show_report(report, out or Path("audits") / spec.name, as_json=as_json)


def _refuse_together(
    only_one_run: Mapping[str, object], *, one_run: bool, runs: int | None
) -> None:
    problems = []
    if one_run and runs is not None:
        problems.append("--runs: expected it without --one-run, got both. Leave one out.")
    for name, value in only_one_run.items():
        if value is not None and not one_run:
            problems.append(f"{name}: expected --one-run beside it, got {value} alone.")
    if problems:
        raise UsageError("\n".join(problems))
