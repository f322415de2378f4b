"""`dppipe account`: what a schedule or a single mechanism costs, and the noise or steps for a
budget.

It needs no data and no spec.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    Buckets,
    Curve,
    Deltas,
    Disjoint,
    Epsilon,
    Group,
    MaxBatchSize,
    Mechanism,
    NoiseMultiplier,
    Plot,
    Records,
    RelationName,
    Repetitions,
    SampleRate,
    SamplerKind,
    Scores,
    SecondOpinionToo,
    SelectBest,
    Shape,
    StepDelta,
    StepEpsilon,
    Steps,
    TruthProbability,
)
from dppipe.cli.account_sampler import sampler_from_options
from dppipe.cli.account_theorems import compose_by_theorems, refuse_other_options, refuse_step_delta
from dppipe.cli.mechanisms.answering import answer_single
from dppipe.cli.mechanisms.choosing import given_options, is_single, refuse_single_options
from dppipe.cli.options import AsJson
from dppipe.cli.plots.account_plot import write_plot
from dppipe.cli.printing.account import answer_table, one_answer, theorem_table
from dppipe.cli.printing.screen import say
from dppipe.cli.printing.second_opinion import CONTRADICTION
from dppipe.privacy.support import ACCOUNTANTS

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer, Question
    from dppipe.privacy.second_opinion import SecondOpinion


def account(
    context: typer.Context,
    delta: Deltas = None,
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
    truth_probability: TruthProbability = None,
    buckets: Buckets = 2,
    scores: Scores = None,
    group: Group = None,
    disjoint: Disjoint = None,
    select_best: SelectBest = None,
    repetitions: Repetitions = "truncated_negative_binomial",
    shape: Shape = None,
    second_opinion: SecondOpinionToo = False,
    as_json: AsJson = False,
) -> None:
    """Work out epsilon, the noise or the steps, whichever of them isn't given.

    `--mechanism gaussian --epsilon 0.5 --delta 1e-5`, without a sampler, is about one release.
    `--step-epsilon 0.1 --steps 100 --delta 1e-5` composes mechanisms known by epsilon alone.
    """
    given = given_options(context)
    if step_epsilon is not None:
        deltas = parse_deltas(delta)
        refuse_other_options(context)
        rate = 1.0 if sample_rate is None else sample_rate
        rows = compose_by_theorems(step_epsilon, step_delta, steps=steps, rate=rate, deltas=deltas)
        typer.echo(json.dumps({"results": rows}, indent=2) if as_json else theorem_table(rows))
        return
    if is_single(given):
        typer.echo(answer_single(given, plot=plot, as_json=as_json))
        return
    refuse_single_options(given)
    deltas = parse_deltas(delta)
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
    showing = _Showing(accountant, curve, plot, second_opinion, as_json)
    if _contradicted(*_show_schedule(questions, showing)):
        raise typer.Exit(CONTRADICTION)


class _Showing(NamedTuple):
    """Which accountants are asked about a schedule, and how their answers are shown."""

    accountant: str
    curve: int
    plot: Path | None
    second_opinion: bool
    as_json: bool


def _show_schedule(
    questions: list[Question], showing: _Showing
) -> tuple[list[Answer], list[SecondOpinion]]:
    """Print the answers to a schedule; return them and the second opinions."""
    kinds = list(ACCOUNTANTS) if showing.accountant == "all" else [showing.accountant]
    points = max(showing.curve, 64 if showing.plot else 0)
    answers, refused = find_answers(questions, kinds, points=points)
    if showing.plot:
        write_plot(answers, showing.plot)
    opinions = [answer_opinion(found) for found in answers] if showing.second_opinion else []
    alone = len(questions) == len(kinds) == 1
    curve = bool(showing.curve)
    if showing.as_json:
        typer.echo(json.dumps(_data(answers, refused, opinions, alone=alone), indent=2))
    elif alone:
        say(one_answer(answers[0], *opinions, curve=curve))
    else:
        say(answer_table(answers, refused, opinions, curve=curve))
    return answers, opinions


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
