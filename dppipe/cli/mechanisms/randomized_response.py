"""Randomised response: epsilon from the chance of the truth, or back, and what an estimate errs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.cli.mechanisms.asked import DIGITS, Asked, Single
from dppipe.cli.mechanisms.groups import draw_pure_group, pure_group
from dppipe.cli.mechanisms.together import together
from dppipe.privacy.printing import shown

if TYPE_CHECKING:
    from dppipe.privacy.budget import Relation
    from dppipe.privacy.textbook.randomized_answers import RandomizedAnswers


def answer_randomized_response(asked: Asked) -> Single:
    """Return the epsilon of one answer, and the spread of the estimate that has no bias."""
    relation: Relation = asked.relation or "replace_one"
    answers = _find_answers(asked, relation)
    epsilon = answers.epsilon(relation, digits=DIGITS)
    count = asked.records or 1
    data: dict[str, Any] = {
        "mechanism": "randomized_response",
        "relation": relation,
        "epsilon": epsilon,
        "delta": 0.0,
        "truth_probability": answers.truth,
        "buckets": answers.buckets,
        "noise_parameter": answers.noise_parameter,
        "certified": True,
        "spread": {"answers": count, "standard_deviation": answers.spread(count)},
    }
    facts = {
        "epsilon": f"{shown(epsilon)} for each answer, with delta 0, certified and exact",
        "truth": f"probability {answers.truth!r} out of {answers.buckets} buckets",
        "random answers": f"a share of {answers.noise_parameter:.6g}, from all buckets",
        "estimated share": _spread_text(answers, asked.records),
        "relation": relation,
    }
    if asked.delta is not None:
        steps = asked.steps or 1
        name = f"{steps} of one person" if steps > 1 else "at a delta"
        facts[name], data["together"] = together(
            _event(answers), delta=asked.delta, relation=relation, count=steps
        )
    if asked.group is not None:
        facts[f"group of {asked.group}"], data["group"] = pure_group(epsilon, asked.group)

    def draw(figure: Any) -> None:
        if asked.group is not None:
            draw_pure_group(figure, epsilon, asked.group, name="Randomised response")
        else:
            _draw_trade(figure, answers, relation)

    sentence = (
        f"Answers that are true with probability {answers.truth!r} cost epsilon {shown(epsilon)}."
    )
    return Single(sentence=sentence, facts=facts, data=data, draw=draw)


def _find_answers(asked: Asked, relation: Relation) -> RandomizedAnswers:
    from dppipe.privacy.textbook.randomized_answers import RandomizedAnswers, answers_within

    if asked.truth_probability is not None:
        return RandomizedAnswers(asked.truth_probability, asked.buckets)
    return answers_within(asked.epsilon or 0.0, buckets=asked.buckets, relation=relation)


def _event(answers: RandomizedAnswers) -> Any:
    from dp_accounting import RandomizedResponseDpEvent

    return RandomizedResponseDpEvent(answers.noise_parameter, answers.buckets)


def _spread_text(answers: RandomizedAnswers, records: int | None) -> str:
    if records is None:
        return f"standard deviation at most {answers.spread(digits=4):g} / sqrt(answers)"
    return f"standard deviation at most {answers.spread(records, digits=4):g}, {records} answers"


def _draw_trade(figure: Any, answers: RandomizedAnswers, relation: Relation) -> None:
    """Draw epsilon and the spread of an estimate over the chance of the truth."""
    import numpy as np

    from dppipe.privacy.textbook.randomized_answers import RandomizedAnswers

    left = figure.subplots()
    right = left.twinx()
    least = 1 / answers.buckets
    truths = [*np.linspace(least, 1, 201)[4:-1], 0.999, 0.9999]
    others = [RandomizedAnswers(float(truth), answers.buckets) for truth in truths]
    epsilons = [other.epsilon(relation) for other in others]
    (cost,) = left.plot(truths, epsilons, "C0-", label="ε of one answer")
    (error,) = right.plot(
        truths, [other.spread() for other in others], "C1--", label="error of an estimate"
    )
    epsilon = answers.epsilon(relation)
    (asked,) = left.plot([answers.truth], [epsilon], "ko", label=f"asked: ε = {shown(epsilon)}")
    left.set(xlabel="probability of the truth", ylabel="ε", xlim=(least, 1))
    left.set_ylim(bottom=0)
    right.set(ylabel="standard deviation × √answers", yscale="log")
    left.set_title(f"Randomised response over {answers.buckets} buckets, {relation}", fontsize=10)
    left.legend(handles=[cost, error, asked], fontsize=9, loc="upper center")
    left.grid(alpha=0.3)
