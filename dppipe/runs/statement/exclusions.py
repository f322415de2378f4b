"""What a claim leaves out, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.planning.tuning.tune_plan import TunePlan
from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.statement.other_releases import charged_preprocessing
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.runs.statement.statement import ScopeTerms, Statement

_NO_VALIDATION = "No validation metrics were recorded."
_PUBLIC_VALIDATION = (
    "The holdout was declared public: metrics on it cost nothing. They were recorded {times}, "
    "under `val/`. What was logged while training was muted."
)
_PRIVATE_VALIDATION = (
    "The holdout is private. Metrics on it were recorded {times}, under `nonprivate/val/`, and "
    "carry no noise. Don't release them, nor choose a model by them."
)
_PUBLIC_TEST = (
    "The test split was looked at {times}, by `dppipe evaluate`. It was declared public: its "
    "scores need no protection."
)
_PRIVATE_TEST = (
    "The test split was looked at {times}, by `dppipe evaluate`. It is private: its scores, under "
    "`nonprivate/test/`, carry no noise. Don't release them, nor choose a model by them."
)
_PUBLIC_SCORES = (
    "Runs of the search were scored on the holdout, by {metric}. It was declared public: scores "
    "carry no noise and cost nothing. The winner's score, in `summary.json` and `tune.json`, is "
    "the best of several: expect new records to be answered less well."
)
_PRIVATE_SCORES = (
    "Runs of the search were scored on a private holdout that none was trained on, by {sum} plus "
    "Gaussian noise of standard deviation {noise_std:g}. One record changes the sum by at most 1, "
    "and the noise is charged with the search. The winner's score, in `summary.json` and "
    "`tune.json`, has this noise and is the best of several: it says too much of the model, by "
    "luck and by noise."
)
_SUMS = {
    "accuracy": "the number of right answers",
    "loss": "minus the sum of losses, each held to [0, 1],",
}
_DIAGNOSTICS = (
    "Training diagnostics were recorded without noise, under `nonprivate/`. Don't release them."
)
_ATTACKS = (
    "Attacks on the model used its training records and its holdout without noise. What they found "
    "is under `nonprivate/attack/`. Don't release it, nor choose a model by it."
)
_OTHER_RUNS = (
    "Other runs on the same records, and hyper-parameters chosen by looking at such runs, are not "
    "accounted for: their costs add to this one."
)
_TIMING = "How long a step or the run took, and how much memory it used, can depend on the records."
_BAD_RECORDS = (
    "`data.on_bad_record` is refuse: the run would not have started had a record been unusable. "
    "That it started tells that all records were usable."
)
_FAULTS = (
    "A run that memory or a disk has failed may have failed because of a record. Code of your own "
    "that writes files, global variables or logs by itself is outside too."
)
_DECLARED_PUBLIC = (
    "The spec declares that no record of the data needs protection (`data.public: true`). Nobody "
    "has checked that; it lowers no number here."
)
_PREPROCESSING = (
    "What was learned from private records before training (means, vocabularies) is not covered"
)
_FLOATING_POINT = "The proofs are over real numbers. Noise and sums are rounded to floating point."
_COMMON_GRID = (
    "The proofs are over real numbers. Noise and sums were added on a common grid; the sums "
    "themselves were computed in floating point."
)
_PRETRAINED = (
    "Training started from weights that are taken as public: nothing is promised to the people "
    "behind the records that they were trained on."
)
_CANDIDATES = (
    "Candidates that no private run has trained are taken as public: nothing is promised to the "
    "people behind the records that they were trained on."
)


def not_covered(statement: Statement) -> dict[str, str]:
    """Return what the guarantee leaves out, each under a short name."""
    plan = statement.plan
    said = {"holdout": _validation(statement)}
    if statement.test_looks:
        said["test_split"] = _test(statement)
    said["diagnostics"] = "No training diagnostics were recorded."
    if statement.diagnostics:
        said["diagnostics"] = _DIAGNOSTICS
    if statement.files.attacks:
        said["attacks"] = _ATTACKS
    said["earlier_runs_and_tuning"] = _other_runs(statement)
    said["timing"] = _TIMING
    said["faults"] = _FAULTS
    if plan.data is not None and plan.data.public:
        said["public_data"] = _DECLARED_PUBLIC
    if plan.data is not None and plan.data.on_bad_record == "refuse":
        said["bad_records"] = _BAD_RECORDS
    said["preprocessing"] = f"{_PREPROCESSING}{charged_preprocessing(plan)}."
    said["floating_point"] = _COMMON_GRID if plan.secure else _FLOATING_POINT
    said["trust"] = "Whoever runs the training sees the records (the central model)."
    if statement.public_weights:
        said["pretrained"] = _PRETRAINED
    if plan.learner == "exponential":
        said["candidates"] = _CANDIDATES
    return said


def _validation(statement: Statement) -> str:
    if isinstance(statement.plan, TunePlan):
        return _scores(statement.plan)
    looks = statement.validation_looks
    resumed = statement.starts > 1
    if statement.validation == "none" or (not looks and not resumed):
        return _NO_VALIDATION
    # What a crash takes is not in the count.
    times = f"at least {looks} times" if resumed else _times(looks)
    text = _PUBLIC_VALIDATION if statement.validation == "public" else _PRIVATE_VALIDATION
    return text.format(times=times)


def _scores(plan: TunePlan) -> str:
    """Return what is said of the holdout that the runs of a search were scored on."""
    score = plan.search.score
    if score.noise_std is None:
        return _PUBLIC_SCORES.format(metric=score.metric)
    return _PRIVATE_SCORES.format(sum=_SUMS[score.metric], noise_std=score.noise_std)


def _test(statement: Statement) -> str:
    text = _PUBLIC_TEST if statement.plan.holdout == "public" else _PRIVATE_TEST
    return text.format(times=_times(statement.test_looks))


def _other_runs(statement: Statement) -> str:
    scope = statement.plan.scope
    if scope is None:
        return _OTHER_RUNS
    said = f"This run is charged to the budget scope {scope!r}, too."
    if statement.scope_terms is not None:
        said += f" {_terms(statement.scope_terms)}"
    return (
        f"{said} `{shown_command('budget', 'show', scope)}` shows what is used now. "
        "Runs outside of the scope are not accounted for: their costs add."
    )


def _terms(terms: ScopeTerms) -> str:
    runs = "its 1 run has" if terms.runs == 1 else f"its {terms.runs} runs have"
    return (
        f"All runs of the scope together cost at most epsilon {shown(terms.epsilon)} at delta "
        f"{shown_delta(terms.delta)}, however each was chosen. With the whole plan of this run "
        f"counted, {runs} spent epsilon {shown(terms.epsilon_spent)} of that."
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
