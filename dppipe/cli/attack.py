"""`dppipe attack`: attack the model of a finished run, beside a twin without privacy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.attack_options import (
    ClassNumber,
    ColumnName,
    GeneratorPath,
    Prior,
    RecordNumber,
    Starts,
    Steps,
)
from dppipe.cli.options import AsJson, Plugins, RunPath
from dppipe.cli.printing.wrapping import fit_terminal, short_path

if TYPE_CHECKING:
    from dppipe.audit.attacks.options import AttackOptions
    from dppipe.audit.attacks.report import Report

Kind = Annotated[
    str,
    typer.Option("--kind", metavar="KIND", help="membership, inversion or gradients."),
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="membership: rmia, loss, shadow, lira, lira-offline; inversion: class, generator, "
        "attribute; gradients: all, exact, distance, cosine. The first is the default.",
    ),
]
TwinRun = Annotated[
    Path | None,
    typer.Option("--twin", metavar="RUN", help="A run without a budget to compare with."),
]
TwinEpochs = Annotated[
    float | None,
    typer.Option("--twin-epochs", metavar="N", help="Epochs of a twin that is trained here."),
]
Shadows = Annotated[
    int | None, typer.Option("--shadows", metavar="N", help="How many shadow models are trained.")
]
Members = Annotated[
    int, typer.Option("--members", metavar="N", help="The most members that are attacked.")
]
NonPrivate = Annotated[
    bool,
    typer.Option("--nonprivate", help="Use private records; nothing found will be released."),
]


def attack(
    run: RunPath,
    kind: Kind,
    method: Method = None,
    twin: TwinRun = None,
    twin_epochs: TwinEpochs = None,
    shadows: Shadows = None,
    members: Members = 1000,
    class_number: ClassNumber = None,
    prior: Prior = None,
    column: ColumnName = None,
    generator: GeneratorPath = None,
    record: RecordNumber = None,
    steps: Steps = None,
    starts: Starts = None,
    nonprivate: NonPrivate = False,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Attack the model of a finished run.

    The same attack is made on a twin without privacy, and what the certificate leaves to any
    attacker stands beside both. What is found isn't private: it goes to nonprivate/attack/ in the
    run directory. Only an attack on made-up records (gradients without --record) goes to attack/.
    """
    from dppipe.audit.attacks.kinds import checked_method
    from dppipe.audit.attacks.options import AttackOptions

    chosen = checked_method(kind, method)
    options = AttackOptions(
        method=chosen,
        twin=twin,
        twin_epochs=twin_epochs,
        shadows=shadows,
        members=members,
        class_number=class_number,
        prior=prior,
        column=column,
        generator=generator,
        record=record,
        steps=steps,
        starts=starts,
        plugins=plugins,
    )
    report, folder = _attack(run, kind, options, nonprivate=nonprivate)
    if as_json:
        typer.echo((folder / "attack.json").read_text().rstrip("\n"))
        return
    for line in report.lines:
        typer.echo(line)
    notice = " (not private: don't release it)" if report.from_records else ""
    typer.echo(f"read: {short_path(folder)}/attack.md{notice}")
    if report.draw is not None and not (folder / report.picture).exists():
        note = "No picture was drawn: matplotlib isn't installed. Install dppipe[plot] for one."
        typer.echo(fit_terminal(note, stream=sys.stderr), err=True)


def _attack(
    run: Path, kind: str, options: AttackOptions, *, nonprivate: bool
) -> tuple[Report, Path]:
    from dataclasses import replace

    from rich.console import Console

    from dppipe.audit.attacks.files import write_report
    from dppipe.audit.attacks.kinds import attack_of
    from dppipe.audit.attacks.options import refuse_options
    from dppipe.audit.attacks.progress import Shown
    from dppipe.audit.attacks.victim import open_victim

    refuse_options(options, kind=kind)
    victim = open_victim(run, nonprivate=nonprivate, plugins=options.plugins)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with Shown(console) as progress:
        report = attack_of(kind)(victim, replace(options, progress=progress))
    return report, write_report(victim.run, report)
