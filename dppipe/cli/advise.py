"""`dppipe advise`: settings for a budget, before there is a spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dppipe.cli.options import AsJson
from dppipe.errors import UsageError

_RELATIONS = ("zero_out", "add_remove", "replace_one")


def advise(
    records: Annotated[
        int, typer.Option("--records", metavar="N", min=2, help="Training records.")
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", metavar="E", help="The budget.")],
    delta: Annotated[float, typer.Option("--delta", metavar="D", help="Its delta, below 1/N.")],
    examples_seen: Annotated[
        int,
        typer.Option(
            "--examples-seen", metavar="M", min=1, help="What is to be computed: steps times batch."
        ),
    ],
    dimension: Annotated[
        int | None, typer.Option("--dimension", metavar="W", min=1, help="Trainable weights.")
    ] = None,
    relation: Annotated[
        str, typer.Option("--relation", metavar="NAME", help="What neighbours differ in.")
    ] = "zero_out",
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw noise over batch size.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Propose a learner, batch size, steps, noise and bound, with certified costs and reasons.

    No record is read. The table of learners is the one that dppipe ships.
    """
    from dppipe.cli.printing.advice import advice_text
    from dppipe.planning.advising.advice import advise as make_advice
    from dppipe.planning.advising.batches import Facts

    if not 0 < epsilon < float("inf"):
        raise UsageError(f"--epsilon: expected a number > 0, got {epsilon:g}.")
    if relation not in _RELATIONS:
        known = ", ".join(_RELATIONS)
        raise UsageError(f"--relation: expected one of {known}, got {relation!r}.")
    facts = Facts(records, epsilon, delta, examples_seen, relation, dimension)  # type: ignore[arg-type]
    advice = make_advice(facts)
    if plot is not None:
        from dppipe.cli.plots.advice_plot import write_advice_plot

        write_advice_plot(advice, plot)
    typer.echo(json.dumps(advice.to_data(), indent=2) if as_json else advice_text(advice))
