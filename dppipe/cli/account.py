"""`dppipe account`: what a schedule costs, the noise for a budget, or the steps that fit in one.

It needs no data and no spec.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.account_answers import (
    answer_opinion,
    find_answers,
    make_questions,
    parse_deltas,
)
from dppipe.cli.account_sampler import sampler_from_options
from dppipe.cli.account_theorems import compose_by_theorems, refuse_other_options
from dppipe.cli.options import AsJson
from dppipe.cli.printing.account import answer_table, one_answer, theorem_table
from dppipe.cli.printing.account_plot import write_plot
from dppipe.cli.printing.second_opinion import CONTRADICTION
from dppipe.errors import UsageError
from dppipe.privacy.support import ACCOUNTANTS

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer
    from dppipe.privacy.second_opinion import SecondOpinion

_TEXTBOOK = "Textbook exercises"
_Deltas = Annotated[
    list[str],
    typer.Option(
        help="The delta of the claim; several, or separated by commas, give a table.",
        metavar="<float>",
    ),
]


def account(
    context: typer.Context,
    delta: _Deltas,
    sample_rate: Annotated[
        float | None, typer.Option(help="The chance of each record to be in a step's batch.")
    ] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Noise over the bound of one record; else worked out.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="The number of steps; else the most that fit is worked out.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The budget; without it epsilon is worked out.")
    ] = None,
    accountant: Annotated[
        str, typer.Option(help=f"{', '.join(ACCOUNTANTS)}, or all of them.")
    ] = "pld",
    sampler: Annotated[
        str | None,
        typer.Option(help="The kind of sampler.", show_default="poisson; full_batch at rate 1"),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option(help="What neighbours differ in.", show_default="the sampler's own"),
    ] = None,
    mechanism: Annotated[str, typer.Option(help="The noise: gaussian or laplace.")] = "gaussian",
    records: Annotated[
        int | None, typer.Option(help="The number of records, where the sampler needs it.")
    ] = None,
    batch_size: Annotated[
        float | None, typer.Option(help="The expected batch size, instead of the sample rate.")
    ] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(help="The largest batch of truncated_poisson.")
    ] = None,
    curve: Annotated[
        int, typer.Option(min=0, help="Show epsilon after so many parts of the steps.")
    ] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write the curve as a picture; needs the extra dppipe[plot]."),
    ] = None,
    step_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Compose mechanisms of this epsilon by each theorem.", rich_help_panel=_TEXTBOOK
        ),
    ] = None,
    step_delta: Annotated[
        float, typer.Option(help="The delta of each such mechanism.", rich_help_panel=_TEXTBOOK)
    ] = 0.0,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Ask dp_accounting's own PLD too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Work out epsilon, the noise or the steps, whichever of them isn't given.

    One step at rate 1 is a single mechanism: `--sample-rate 1 --steps 1 --epsilon 1 --delta 1e-5`
    calibrates it, with `--mechanism laplace --accountant basic` as a textbook does.
    `--step-epsilon 0.1 --steps 100 --delta 1e-5` composes mechanisms of which only epsilon is
    known.
    """
    deltas = parse_deltas(delta)
    if step_epsilon is not None:
        refuse_other_options(context)
        rate = 1.0 if sample_rate is None else sample_rate
        rows = compose_by_theorems(step_epsilon, step_delta, steps=steps, rate=rate, deltas=deltas)
        typer.echo(json.dumps({"results": rows}, indent=2) if as_json else theorem_table(rows))
        return
    if step_delta:
        raise UsageError(
            f"--step-delta: expected none without --step-epsilon, got {step_delta:g}. "
            "Give both, or leave it out."
        )
    made, rate = sampler_from_options(
        sampler,
        sample_rate=sample_rate,
        records=records,
        batch_size=batch_size,
        most=max_batch_size,
    )
    questions = make_questions(
        made,
        rate,
        per_charge=made.epoch_length(records) if made.epochwise else 1,
        relation=relation,
        mechanism=mechanism,
        deltas=deltas,
        noise=noise_multiplier,
        steps=steps,
        epsilon=epsilon,
    )
    kinds = list(ACCOUNTANTS) if accountant == "all" else [accountant]
    answers, refused = find_answers(questions, kinds, points=max(curve, 64 if plot else 0))
    if plot:
        write_plot(answers, plot)
    opinions = [answer_opinion(found) for found in answers] if second_opinion else []
    alone = len(questions) == len(kinds) == 1
    if as_json:
        typer.echo(json.dumps(_data(answers, refused, opinions, alone=alone), indent=2))
    elif alone:
        typer.echo(one_answer(answers[0], *opinions, curve=bool(curve)))
    else:
        typer.echo(answer_table(answers, refused, opinions, curve=bool(curve)))
    if _contradicted(answers, opinions):
        raise typer.Exit(CONTRADICTION)


def _data(
    answers: list[Answer],
    refused: list[dict[str, str]],
    opinions: list[SecondOpinion],
    *,
    alone: bool,
) -> dict[str, Any]:
    results = [found.to_data() for found in answers]
    if opinions:
        for found, opinion, data in zip(answers, opinions, results, strict=True):
            data["second_opinion"] = opinion.to_data(ours=found.epsilon, certified=found.certified)
    return results[0] if alone else {"results": results, "refused": refused}


def _contradicted(answers: list[Answer], opinions: list[SecondOpinion]) -> bool:
    """Whether a second opinion lies above a certified epsilon by more than its error."""
    for found, opinion in zip(answers, opinions, strict=False):
        contradicts = opinion.contradicts(found.epsilon)
        if found.certified and contradicts:
            return True
    return False
