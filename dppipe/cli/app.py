"""The command line app: one line registers a command.

Commands import what is heavy when they run, never here.
"""

from __future__ import annotations

from typing import Annotated

import typer

import dppipe
from dppipe.cli import budget, ledger, plugins, recipes
from dppipe.cli.account import account
from dppipe.cli.advise import advise
from dppipe.cli.attack import attack
from dppipe.cli.audit import audit
from dppipe.cli.bench import bench
from dppipe.cli.compare import compare
from dppipe.cli.doctor import doctor
from dppipe.cli.errors import Commands
from dppipe.cli.evaluate import evaluate
from dppipe.cli.export import export
from dppipe.cli.init import init
from dppipe.cli.plan import plan
from dppipe.cli.predict import predict
from dppipe.cli.report import report
from dppipe.cli.resume import resume
from dppipe.cli.run import run
from dppipe.cli.schema import schema
from dppipe.cli.show import show
from dppipe.cli.sweep import sweep
from dppipe.cli.tensorboard import tensorboard
from dppipe.cli.tune import tune
from dppipe.cli.validate import validate

app = typer.Typer(
    name="dppipe",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dppipe {dppipe.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train models under differential privacy from one YAML file."""


app.command()(run)
app.command()(resume)
app.command()(tune)
app.command()(plan)
app.command()(validate)
app.command()(show)
app.command()(doctor)
app.command()(bench)
app.command()(evaluate)
app.command()(predict)
app.command()(export)
app.command()(audit)
app.command()(attack)
app.command()(report)
app.command()(compare)
app.command()(sweep)
app.command()(tensorboard)
app.command(short_help="Work out epsilon, the noise or the steps from the others.")(account)
app.command(short_help="Propose settings for a budget; no record is read.")(advise)
app.command()(schema)
app.command()(init)
app.add_typer(budget.app, name="budget")
app.add_typer(ledger.app, name="ledger")
app.add_typer(plugins.app, name="plugins")
app.add_typer(recipes.app, name="recipes")
