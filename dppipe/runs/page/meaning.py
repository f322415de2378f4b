"""What a claim means, for whoever answers for the data: what attackers can do, five questions.

The answers repeat the statement in fewer words. They don't judge the size of epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown, shown_delta, shown_share
from dppipe.runs.page.exclusions import exclusions
from dppipe.runs.page.markup.elements import EMPTY, box, bullets, joined, paragraph, section
from dppipe.runs.page.markup.wording import decimal_delta, in_100, one_in, whose_records
from dppipe.runs.page.publishing import accuracy, model
from dppipe.runs.statement.claims import growth, one_of, units_of

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.runs.page.facts import PageFacts

_RATE = 0.01
_IN_FULL = Markup('<p><a href="#not-covered">Each of them in full</a></p>\n')
_NO_JUDGE = (
    "This page doesn't say whether that is enough: that depends on the data and on who would ask."
)


def meaning(facts: PageFacts) -> Markup:
    """Return the box of questions and answers."""
    answers = [
        box("What epsilon?", *map(paragraph, _how_much(facts))),
        box("For whom?", *map(paragraph, _for_whom(facts))),
        box("What isn't covered?", *_left_out(facts)),
        box("May I publish the validation accuracy?", *map(paragraph, accuracy(facts))),
        box("May I publish the model?", *model(facts)),
    ]
    grid = Markup('<div class="answers">\n{}</div>\n').format(joined(answers))
    return section("What this means", _in_practice(facts), grid, ident="meaning")


def _in_practice(facts: PageFacts) -> Markup:
    """Say what an attacker can do, in the words of a data-protection officer."""
    if facts.blow_up is None:
        return EMPTY
    plan = facts.plan
    unit = one_of(plan.unit)
    found = in_100(facts.recognised(_RATE))
    question = f"find out whether one {unit} was used for training"
    most = (
        f"An attacker who wrongly accuses 1 in 100 {unit}s that were not used finds at most "
        f"{found} of those that were; guessing finds 1 in 100."
    )
    if plan.relation == "replace_one":
        question = f"find out which of two {unit}s was used for training"
        most = (
            "An attacker who takes the second for the first in 1 in 100 cases recognises the first "
            f"in at most {found} cases; guessing does in 1 in 100."
        )
    right = shown_share((1 + _advantage(facts)) / 2)
    return paragraph(
        f"Suppose that somebody sees all that was released, even knows every other {unit}, and "
        f"wants to {question}. {most} If both answers are equally likely beforehand (50 % each), "
        f"the attacker's answer is right in at most {right} of cases; that of a coin is in 50 %.",
        style="callout",
    )


def _advantage(facts: PageFacts) -> float:
    if facts.plan.attack_limits is not None:
        return facts.plan.attack_limits.advantage
    profile = facts.profile
    return 1.0 if profile is None else float(profile[1][0])


def _how_much(facts: PageFacts) -> Iterator[str]:
    plan = facts.plan
    if not plan.private:
        yield "None: the run has no privacy budget, and no noise was added."
        return
    if not facts.claims or plan.epsilon is None:
        yield "None may be claimed for this run."
        return
    delta = plan.delta or 0.0
    epsilon = shown(plan.epsilon)
    yield f"At most {epsilon}, at delta {shown_delta(delta)}: a proven upper bound, rounded up."
    statement = facts.statement
    spent = None if statement is None else statement.epsilon_spent
    if spent is not None and shown(spent) != epsilon:
        yield (
            f"What was executed cost {shown(spent)}. Quote {epsilon}: when the run stopped may "
            "depend on the records."
        )
    yield (
        f"Epsilon {epsilon} means: what would have had probability p has at most "
        f"{growth(plan.epsilon)} x p. Delta is a small slack that is added to every probability: "
        f"here {decimal_delta(delta)}{_in_words(delta)}."
    )
    yield (
        "Smaller means more protection. Epsilon 0 and delta 0 would mean that nothing was learned "
        f"from any one {one_of(plan.unit)}. {_NO_JUDGE}"
    )


def _in_words(delta: float) -> str:
    return f", which is {one_in(delta)}" if delta else ""


def _for_whom(facts: PageFacts) -> Iterator[str]:
    plan = facts.plan
    if not facts.claims:
        yield "For nobody: nothing is promised."
        return
    many = units_of(plan.unit)
    if plan.unit == "user":
        yield f"For each user of the training data: {whose_records(plan)}, together."
        yield from _most_records(plan)
    else:
        yield (
            "For each single training record, one at a time. A person with several records has "
            "less protection: k records together have up to k times this epsilon."
        )
    if plan.relation == "add_remove":
        yield f"How many {many} there are is protected, too."
    elif plan.records is not None:
        yield f"There are {plan.records} {many}. This number is taken as public."
    yield "Not for the people behind the holdout (validation and test records)."


def _most_records(plan: Plan) -> Iterator[str]:
    most = plan.max_records_per_user
    if most is not None:
        yield (
            f"All records of a user are protected, however many there are. Only {most} of them are "
            "used in a step; the others are not used."
        )


def _left_out(facts: PageFacts) -> Iterator[Markup]:
    if not facts.claims:
        yield paragraph("Everything.")
        return
    yield bullets(f"{title}." for title, _ in exclusions(facts))
    yield _IN_FULL
