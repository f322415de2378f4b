"""`dppipe account`: what a schedule costs, the noise for a budget, or the steps that fit in one.

It needs no data and no spec.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from dppipe.cli.account_answers import (
    ScheduleOptions,
    answer_opinion,
    find_answers,
    make_questions,
    parse_deltas,
)
from dppipe.cli.account_options import (
    AccountantKind,
    BatchSize,
    Curve,
    Deltas,
    Epsilon,
    MaxBatchSize,
    Mechanism,
    NoiseMultiplier,
    Plot,
    Records,
    RelationName,
    SampleRate,
    SamplerKind,
    SecondOpinionToo,
    StepDelta,
    StepEpsilon,
    Steps,
)
from dppipe.cli.account_sampler import sampler_from_options
from dppipe.cli.account_theorems import compose_by_theorems, refuse_other_options, refuse_step_delta
from dppipe.cli.options import AsJson
from dppipe.cli.printing.account import answer_table, one_answer, theorem_table
from dppipe.cli.printing.account_plot import write_plot
from dppipe.cli.printing.second_opinion import CONTRADICTION
from dppipe.privacy.support import ACCOUNTANTS

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer
    from dppipe.privacy.second_opinion import SecondOpinion


def account(
    context: typer.Context,
    delta: Deltas,
    sample_rate: SampleRate = None,
    noise_multiplier: NoiseMultiplier = None,
    steps: Steps = None,
    epsilon: Epsilon = None,
    accountant: AccountantKind = "pld",
    sampler: SamplerKind = None,
    relation: RelationName = None,
    mechanism: Mechanism = "gaussian",
    records: Records = None,
    batch_size: BatchSize = None,
    max_batch_size: MaxBatchSize = None,
    curve: Curve = 0,
    plot: Plot = None,
    step_epsilon: StepEpsilon = None,
    step_delta: StepDelta = 0.0,
    second_opinion: SecondOpinionToo = False,
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
    refuse_step_delta(step_delta)
    made, rate = sampler_from_options(
        sampler,
        sample_rate=sample_rate,
        records=records,
        batch_size=batch_size,
        most=max_batch_size,
    )
    schedule = ScheduleOptions(relation, mechanism, noise_multiplier, steps, epsilon)
    questions = make_questions(made, rate, schedule, records=records, deltas=deltas)
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
