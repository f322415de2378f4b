"""What a claim means, for whoever answers for the data: four questions, and what may be shown.

The answers repeat the statement in fewer words. They don't judge the size of epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown, shown_delta, shown_share
from dppipe.runs.page.elements import EMPTY, box, bullets, joined, paragraph, section
from dppipe.runs.statement.claims import one_of, units_of
from dppipe.runs.statement.releases import released

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts

_RATE = 0.01
_NO_JUDGE = (
    "This page doesn't say whether that is enough: that depends on the data and on who would ask."
)


def meaning(facts: PageFacts) -> Markup:
    """Return the box of questions and answers."""
    answers = [
        box("What epsilon?", *map(paragraph, _how_much(facts))),
        box("For whom?", *map(paragraph, _for_whom(facts))),
        box("What isn't covered?", *_left_out(facts)),
        box("May I publish the validation accuracy?", *map(paragraph, _accuracy(facts))),
        box("May I publish the model?", *map(paragraph, _model(facts))),
    ]
    grid = Markup('<div class="answers">\n{}</div>\n').format(joined(answers))
    return section("What this means", _in_practice(facts), grid, ident="meaning")


def _in_practice(facts: PageFacts) -> Markup:
    """Say what an attacker can do, in the words of a data-protection officer."""
    if facts.blow_up is None:
        return EMPTY
    plan = facts.plan
    unit = one_of(plan.unit)
    recognised = shown_share(facts.recognised(_RATE))
    advantage = _advantage(facts)
    taken = f"{unit}s that were not used for training"
    question = f"find out whether one {unit} was used for training"
    other = f"every other {unit}"
    if plan.relation == "replace_one":
        taken = f"{unit}s that were not"
        question = f"find out which of two {unit}s was used for training"
    return paragraph(
        f"Suppose that somebody sees all that was released, even knows {other}, and wants to "
        f"{question}. Who accepts to be wrong about {shown_share(_RATE)} of the {taken} "
        f"recognises at most {recognised} of those that were; guessing recognises "
        f"{shown_share(_RATE)}. Where a coin would be right in 50 % of cases, a yes or no is right "
        f"in at most {shown_share((1 + advantage) / 2)}.",
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
    delta = shown_delta(plan.delta or 0.0)
    yield f"At most {shown(plan.epsilon)}, at delta {delta}: a proven upper bound, rounded up."
    statement = facts.statement
    spent = None if statement is None else statement.epsilon_spent
    if spent is not None and shown(spent) != shown(plan.epsilon):
        yield (
            f"The steps that were made cost {shown(spent)}. Quote {shown(plan.epsilon)}: when "
            "the run stopped may depend on the records."
        )
    yield f"Smaller means more protection; 0 would mean that nothing was learned. {_NO_JUDGE}"


def _for_whom(facts: PageFacts) -> Iterator[str]:
    plan = facts.plan
    if not facts.claims:
        yield "For nobody: nothing is promised."
        return
    many = units_of(plan.unit)
    count = "" if plan.records is None else f" There are {plan.records} {many}: this is public."
    if plan.relation == "add_remove":
        count = f" How many {many} there are is protected, too."
    if plan.unit == "user":
        named = plan.data.user if plan.data is not None else None
        by = f" that share one value of `{named}`" if named else ""
        yield f"For each user of the training data: all records{by} together.{count}"
        if plan.max_records_per_user is not None:
            yield f"At most {plan.max_records_per_user} records of a user are used in a step."
    else:
        yield f"For each single training record, one at a time.{count}"
        yield (
            "A person with several records has less protection: k records together have up to k "
            "times this epsilon, and a larger delta."
        )
    yield "Not for the people behind the validation and test data, nor for other data sets."


def _left_out(facts: PageFacts) -> Iterator[Markup]:
    plan = facts.plan
    if not facts.claims:
        yield paragraph("Everything.")
        return
    said = []
    if plan.scope is None:
        said.append(
            "Other trainings on the same records, and settings that were chosen by looking at "
            "them: their epsilons add."
        )
    else:
        said.append(f"Other trainings outside of the budget scope `{plan.scope}`.")
    said.append(_validation_data(facts))
    said.append("Whoever runs the training: they see the records.")
    said.append("How long the training took and how much memory it used.")
    statement = facts.statement
    if statement is not None and statement.public_weights:
        said.append("The records that the starting weights were trained on.")
    said.append("Facts about a group: what is true of many records can be learned.")
    yield bullets(said)
    yield Markup('<p><a href="#not-covered">The full list</a></p>\n')


def _validation_data(facts: PageFacts) -> str:
    if facts.plan.holdout == "private":
        return "The private validation data: metrics on it carry no noise."
    return "The validation data, which was declared public."


def _accuracy(facts: PageFacts) -> Iterator[str]:
    plan = facts.plan
    statement = facts.statement
    if hasattr(plan, "search") and facts.claims:
        if plan.holdout == "private":
            yield (
                "The score `tune/score`: YES. It carries noise, and the epsilon above pays for it. "
                "Any other metric on the private holdout: NO."
            )
        else:
            yield (
                "YES: the winner's score is on validation data that was declared public. It is the "
                "best score of several runs, so a new test would find less."
            )
        return
    if plan.holdout == "private" and plan.private:
        yield (
            "NO. The validation data is private and its metrics carry no noise. They are not on "
            "this page. The run's other files have them under names that start with `nonprivate/`."
            if not facts.nonprivate
            else "NO. The validation data is private and its metrics carry no noise. This page "
            "shows them: keep it to yourself."
        )
        yield "Nor may a model or its settings be chosen by them."
        return
    if not facts.claims:
        yield "No promise covers it: the model may reveal any training record."
        return
    if statement is None or not statement.validation_looks:
        yield "There is none: no validation metric was recorded."
        return
    yield (
        "YES. The validation data was declared public, so metrics on it cost nothing. That holds "
        "only if its people really need no protection."
    )


def _model(facts: PageFacts) -> Iterator[str]:
    statement = facts.statement
    if statement is None or not facts.claims:
        yield "NO promise covers it. Don't release it as private."
        return
    if statement.kind is not None:
        yield "It is not for use: it was made by an audit."
        return
    if statement.files.final_weights:
        yield f"YES, under this epsilon: {released(statement)[0]}"
    else:
        yield "There is no final model. What was released so far is covered by this epsilon."
    yield "This page and `privacy.md` may go with it."
    if facts.plan.holdout == "private" or statement.diagnostics or statement.files.attacks:
        yield (
            "`summary.json`, the curves `events.out.tfevents.*` and the folder `nonprivate/` may "
            "not: they may hold numbers without noise."
        )
