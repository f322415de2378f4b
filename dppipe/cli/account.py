"""`dppipe account`: what a schedule costs, the noise for a budget, or the steps that fit in one; no data, no spec."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.account_sampler import check_positive, load_named, sampler_from_options
from dppipe.cli.options import AsJson
from dppipe.cli.printing.account import answer_table, one_answer, theorem_table, write_plot
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.privacy.events.sequences import MOST_COUNTED
from dppipe.privacy.support import ACCOUNTANTS, relations

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer, Question
    from dppipe.sampling.base import Sampler

_TEXTBOOK = "Textbook exercises"
_Deltas = Annotated[
    list[str],
    typer.Option(
        help="The delta of the claim; several, or separated by commas, give a table.",
        metavar="<float>",
    ),
]
_OF_THEOREMS = ("delta", "sample_rate", "steps", "step_epsilon", "step_delta", "as_json")


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
    as_json: AsJson = False,
) -> None:
    """Work out epsilon, the noise or the steps, whichever of them isn't given.

    One step at rate 1 is a single mechanism: `--sample-rate 1 --steps 1 --epsilon 1 --delta 1e-5` calibrates it, with
    `--mechanism laplace --accountant basic` as a textbook does. `--step-epsilon 0.1 --steps 100 --delta 1e-5` composes
    mechanisms of which epsilon is all that is known.
    """
    deltas = _deltas(delta)
    if step_epsilon is not None:
        _only_textbook(context)
        found = _textbook(
            step_epsilon,
            step_delta,
            steps=steps,
            rate=1.0 if sample_rate is None else sample_rate,
            deltas=deltas,
        )
        typer.echo(json.dumps({"results": found}, indent=2) if as_json else theorem_table(found))
        return
    if step_delta:
        raise UsageError(
            f"--step-delta: expected none without --step-epsilon, got {step_delta:g}. Give both, or leave it out."
        )
    made, rate = sampler_from_options(
        sampler,
        sample_rate=sample_rate,
        records=records,
        batch_size=batch_size,
        most=max_batch_size,
    )
    questions = _questions(
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
    points = max(curve, 64 if plot else 0)
    kinds = list(ACCOUNTANTS) if accountant == "all" else [accountant]
    answers, refused = _answers(questions, kinds, points=points)
    if plot:
        write_plot(answers, plot)
    alone = len(questions) == len(kinds) == 1
    typer.echo(_shown(answers, refused, alone=alone, curve=bool(curve), as_json=as_json))


def _shown(
    answers: list[Answer], refused: list[dict[str, str]], *, alone: bool, curve: bool, as_json: bool
) -> str:
    if alone:
        return (
            json.dumps(answers[0].to_data(), indent=2)
            if as_json
            else one_answer(answers[0], curve=curve)
        )
    if as_json:
        return json.dumps(
            {"results": [found.to_data() for found in answers], "refused": refused}, indent=2
        )
    return answer_table(answers, refused, curve=curve)


def _deltas(given: list[str]) -> list[float]:
    try:
        values = [float(part) for text in given for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--delta: expected numbers, separated by commas, got {', '.join(given)!r}."
        ) from None
    for value in values:
        if not 0 < value < 1:
            raise UsageError(f"--delta: expected a number between 0 and 1, got {value:g}.")
    return values


def _questions(
    sampler: Sampler,
    rate: float,
    *,
    per_charge: int,
    relation: str | None,
    mechanism: str,
    deltas: list[float],
    noise: float | None,
    steps: int | None,
    epsilon: float | None,
) -> list[Question]:
    from dppipe.planning.questions import Question

    check_positive("--noise-multiplier", noise)
    if noise is not None and not 1e-9 <= noise <= 1e9:  # as in a spec
        raise UsageError(f"--noise-multiplier: expected a number from 1e-9 to 1e9, got {noise:g}.")
    check_positive("--epsilon", epsilon)
    if steps is not None and not 0 <= steps <= MOST_COUNTED:
        raise UsageError(
            f"--steps: expected a whole number from 0 to {MOST_COUNTED:,}, got {steps}."
        )
    if mechanism not in ("gaussian", "laplace"):
        raise UsageError(f"--mechanism: expected gaussian or laplace, got {mechanism!r}.")
    known: Any = relation or relations(sampler.kind)[0]
    if known not in ("zero_out", "add_remove", "replace_one"):
        raise UsageError(
            f"--relation: expected zero_out, add_remove or replace_one, got {known!r}."
        )
    return [
        Question(
            sampler=sampler,
            sample_rate=rate,
            per_charge=per_charge,
            relation=known,
            mechanism=mechanism,
            delta=delta,
            noise_multiplier=noise,
            steps=steps,
            epsilon=epsilon,
        )
        for delta in deltas
    ]


def _only_textbook(context: typer.Context) -> None:
    """Refuse options that say nothing about mechanisms of which epsilon and delta are all that is known."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in _OF_THEOREMS and source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option}: expected none with --step-epsilon, whose mechanisms are known by epsilon and delta alone."
            )


def _answers(
    questions: list[Question], kinds: list[str], *, points: int
) -> tuple[list[Answer], list[dict[str, str]]]:
    """Ask each accountant; of several, one that refuses is listed, of one, its refusal is the answer."""
    from dppipe.planning.questions import answer

    answers, refused = [], []
    for kind in kinds:
        loaded = load_named("accountant", kind)
        try:
            answers += [answer(question, loaded(), curve_points=points) for question in questions]
        except PrivacyRefusal as error:
            if len(kinds) == 1:
                raise
            refused.append(
                {"accountant": kind, "why": str(error).removeprefix(f"accountant {kind}: ")}
            )
    return answers, refused


def _textbook(
    epsilon: float, delta: float, *, steps: int | None, rate: float, deltas: list[float]
) -> list[dict[str, Any]]:
    """Compose equal (epsilon, delta) mechanisms by each theorem, sampled at a rate."""
    from dppipe.privacy.rounding import round_up
    from dppipe.privacy.textbook.one_step import amplified
    from dppipe.privacy.textbook.theorems import advanced_epsilon, basic_epsilon, optimal_epsilon

    check_positive("--step-epsilon", epsilon)
    if steps is None or not 1 <= steps <= MOST_COUNTED:
        got = "none" if steps is None else steps
        raise UsageError(
            f"--steps: expected how many mechanisms are composed, from 1 to {MOST_COUNTED:,}, got {got}."
        )
    if not 0 <= delta < 1:
        raise UsageError(
            f"--step-delta: expected a number of at least 0 and below 1, got {delta:g}."
        )
    if not 0 < rate <= 1:
        raise UsageError(f"--sample-rate: expected a number above 0 and at most 1, got {rate:g}.")
    each, each_delta = amplified(epsilon, rate), rate * delta
    found = [("basic", basic_epsilon([(each, steps)]), steps * each_delta)]
    for total in deltas:
        slack = total - steps * each_delta
        found.append(
            (
                "advanced",
                advanced_epsilon([(each, steps)], slack=slack) if slack > 0 else math.inf,
                total,
            )
        )
        found.append(
            (
                "optimal",
                optimal_epsilon(each, delta=each_delta, count=steps, total_delta=total),
                total,
            )
        )
    return [
        {
            "theorem": name,
            "epsilon": round_up(value, 6) if math.isfinite(value) else None,
            "delta": round_up(at, 12),
            "steps": steps,
        }
        for name, value, at in found
    ]
