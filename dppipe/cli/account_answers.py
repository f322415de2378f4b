"""The questions that the options of `dppipe account` ask, and the answers of accountants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dppipe.cli.account_sampler import check_positive, load_named
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.privacy.events.sequences import MOST_COUNTED
from dppipe.privacy.support import relations

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer, Question
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.second_opinion import SecondOpinion
    from dppipe.sampling.base import Sampler


def parse_deltas(given: list[str] | None) -> list[float]:
    """Return the numbers of `--delta`, which may be separated by commas."""
    if not given:
        raise UsageError("--delta: expected the delta of the claim, such as 1e-5, got none.")
    values: list[float] = []
    for text in given:
        try:
            values += map(float, text.split(","))
        except ValueError:
            raise UsageError(
                f"--delta: expected numbers, separated by commas, got {', '.join(given)!r}."
            ) from None
    for value in values:
        if not 0 < value < 1:
            raise UsageError(f"--delta: expected a number between 0 and 1, got {value:g}.")
    return values


class ScheduleOptions(NamedTuple):
    """What was given of the schedule; one of noise, steps and epsilon is missing."""

    relation: str | None
    mechanism: str
    noise: float | None
    steps: int | None
    epsilon: float | None


def make_questions(
    sampler: Sampler,
    rate: float,
    given: ScheduleOptions,
    *,
    records: int | None,
    deltas: list[float],
) -> list[Question]:
    """Return one question for each delta; refuse options that are out of range."""
    from dppipe.planning.questions import Question

    _check_numbers(noise=given.noise, steps=given.steps, epsilon=given.epsilon)
    if given.mechanism not in ("gaussian", "laplace"):
        raise UsageError(
            f"--mechanism: expected gaussian or laplace with a sampler, got {given.mechanism!r}."
        )
    known: Any = given.relation or relations(sampler.kind)[0]
    if known not in ("zero_out", "add_remove", "replace_one"):
        raise UsageError(
            f"--relation: expected zero_out, add_remove or replace_one, got {known!r}."
        )
    per_charge = sampler.epoch_length(records) if sampler.epochwise else 1
    questions = []
    for delta in deltas:
        question = Question(
            sampler=sampler,
            sample_rate=rate,
            per_charge=per_charge,
            relation=known,
            mechanism=given.mechanism,
            delta=delta,
            noise_multiplier=given.noise,
            steps=given.steps,
            epsilon=given.epsilon,
        )
        questions.append(question)
    return questions


def _check_numbers(*, noise: float | None, steps: int | None, epsilon: float | None) -> None:
    check_positive("--noise-multiplier", noise)
    if noise is not None and not 1e-9 <= noise <= 1e9:  # as in a spec
        raise UsageError(f"--noise-multiplier: expected a number from 1e-9 to 1e9, got {noise:g}.")
    check_positive("--epsilon", epsilon)
    if steps is not None and not 0 <= steps <= MOST_COUNTED:
        raise UsageError(
            f"--steps: expected a whole number from 0 to {MOST_COUNTED:,}, got {steps}."
        )


def find_answers(
    questions: list[Question], kinds: list[str], *, points: int
) -> tuple[list[Answer], list[dict[str, str]]]:
    """Ask each accountant, and return the answers and the refusals.

    The refusal of a single accountant is raised instead.
    """
    from dppipe.planning.questions import answer

    answers: list[Answer] = []
    refused: list[dict[str, str]] = []
    for kind in kinds:
        loaded = load_named("accountant", kind)
        try:
            found = [answer(question, loaded(), curve_points=points) for question in questions]
        except PrivacyRefusal as error:
            if len(kinds) == 1:
                raise
            why = str(error).removeprefix(f"accountant {kind}: ")
            refused.append({"accountant": kind, "why": why})
            continue
        answers += found
    return answers, refused


def answer_opinion(found: Answer) -> SecondOpinion:
    """Return dp_accounting's epsilon of the same steps."""
    from dppipe.privacy.second_opinion import SecondOpinion, second_opinion

    if not found.steps:
        return SecondOpinion(None, None, "without a step nothing is spent")
    asked = found.question
    schedule = asked.schedule(found.noise_multiplier, found.steps)

    def epsilon_by(accountant: Accountant) -> float:
        return accountant.compose(schedule, relation=asked.relation).epsilon(asked.delta)

    return second_opinion(epsilon_by)
