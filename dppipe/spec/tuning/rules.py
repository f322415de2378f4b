"""Rules between the `tune` block and the rest of a spec."""

from __future__ import annotations

from collections.abc import Iterator

from dppipe.errors import Problem
from dppipe.spec.messages.layout import Refusal
from dppipe.spec.spec import Spec


def tune_problems(spec: Spec) -> Iterator[Problem]:
    """Yield what keeps a spec from being searched privately."""
    if spec.tune is None:
        return
    if spec.budget == "none":
        yield Problem(
            ("tune",),
            "expected a budget for the whole search, got budget: none. Give epsilon and delta, or "
            "compare runs without privacy by hand.",
        )
    if spec.reproducible:
        yield Refusal(
            ("reproducible",),
            "expected false, as a search draws its number of runs in secret, got true. Remove it.",
        )
    if spec.diagnostics != "off":
        yield Refusal(
            ("diagnostics",),
            "expected off, as nothing of a run that loses may be seen, got nonprivate. Remove it.",
        )
    if spec.takes_steps and spec.train.until is not None:
        yield Problem(
            ("train", "until"),
            "expected steps or epochs, as each run's cost is fixed before the search, got until: "
            "budget. Give one of them.",
        )
    if spec.takes_steps and spec.noise.adaptive:
        yield Refusal(
            ("noise", "kind"),
            "expected noise that is fixed before the search, got one that follows released values. "
            "No proof covers a selection among such runs.",
        )
    yield from _score_problems(spec)


def _score_problems(spec: Spec) -> Iterator[Problem]:
    if spec.tune is None:
        return
    score = spec.tune.score
    place = ("tune", "score")
    if spec.data.split.val == 0:
        yield Problem(
            ("data", "split"),
            "expected validation records, on which runs are scored, got none. Raise the share of "
            "val.",
        )
    if score.metric == "accuracy" and spec.data.task == "regression":
        yield Problem((*place, "metric"), "expected loss for a regression, got accuracy.")
    if spec.data.holdout == "public":
        if score.noise_std != "auto":
            yield Problem(
                (*place, "noise_std"),
                f"expected none, as the holdout is public, got {score.noise_std:g}. Remove it.",
            )
    elif spec.unit == "user":
        yield Refusal(
            (*place, "on"),
            "expected a public holdout where whole users are protected, got a private one: one "
            "user may change many answers. Declare data.holdout: public, or protect examples.",
        )
