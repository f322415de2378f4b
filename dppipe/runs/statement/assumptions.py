"""What a claim rests on, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dppipe.runs.statement.claims import units_of
from dppipe.runs.statement.noise_levels import learner_noise, noise_level
from dppipe.runs.statement.other_releases import release_assumptions

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.planning.step_plan import StepPlan
    from dppipe.runs.statement.statement import Statement

_INDEPENDENCE = {
    "by construction": "Each record was evaluated alone, so that no record's gradient depends on "
    "another record.",
    "checked": "Records were evaluated in batches. That no record's gradient depends on another "
    "record was checked by value on made-up records before the first charge.",
}
_SPLIT = {
    "hash": "Records that didn't come in ready parts were split by a hash of each record, or of "
    "its user, with the public seed, so that none decides where another goes.",
    "position": "Records that didn't come in ready parts were split by their positions, drawn "
    "from the public seed.",
    None: "The records were not split by dppipe. Which ones were trained on is taken as decided "
    "without looking at the others.",
}
_SCHEDULE = {
    "committed": "Noise, sample rate and number of steps were fixed before the first release.",
    "releases": "All releases and their noise were fixed before the first of them.",
    "filter": "Noise or sample rate followed released values. A filter admitted each step only "
    "while the budget lasted.",
}
_FAULTY_RECORDS = (
    "From the first charge on, a record that could not be read, collated or evaluated contributed "
    "nothing, and ended nothing."
)
_CHOOSES = "exponential"
"""The learner that chooses among files of weights."""
_FAULTY_SCORES = (
    "From the first charge on, a record that could not be read or collated contributed nothing. "
    "One on which a candidate failed counted as the largest loss of that candidate. Neither ended "
    "anything."
)
_CANDIDATES = (
    "A candidate whose file isn't recognised as a private run's weights is taken as public: if it "
    "was trained on these records, the cost of that training adds."
)
_TURNED = " One record can turn an average around, so noise is scaled to twice the bound."
_TURNED_UNDER_REPLACE_ONE = (
    " One record can turn an average around: the accountant counts twice the bound."
)
_COUNTS = " Noisy counts of unclipped ones were released too, within each step's noise multiplier."
_STOPPED = (
    "The run was stopped before its plan ended. When it stopped may depend on what was released, "
    "so the claim is what the whole plan can cost."
)
_TAKEN_AS_PUBLIC = (
    "The weights that training started from are in a file that isn't recognised as a private "
    "run's. They are taken as public: if they were trained on these records, the cost of that "
    "training adds."
)
_OWN_MODULE = (
    "The weights that the module came with are taken as independent of the records: if they were "
    "trained on them, that cost adds."
)
_DISJOINT = (
    "The spec states that no person has records in both: the larger of the two costs is claimed."
)
_SAME_RECORDS = (
    "The cost of that training is part of every epsilon here. "
    "The settings of this run are taken as chosen without looking at them."
)


def assumptions(statement: Statement) -> tuple[str, ...]:
    """Return what the claim rests on, one bullet each; nothing where there is no claim."""
    plan = statement.plan
    if not plan.private or statement.failed:
        return ()
    said = list(_mechanism(statement))
    said.append(_SCHEDULE[plan.schedule if statement.step_plan is not None else "releases"])
    if statement.status == "interrupted" or statement.stopped_early:
        said.append(_STOPPED)
    said += release_assumptions(plan)
    said += _weights(statement)
    said += _assumed(plan)
    said.append(_SPLIT[statement.split])
    if plan.relation in ("zero_out", "replace_one"):
        said.append(f"The number of {units_of(plan.unit)} is public.")
    return tuple(said)


def _assumed(plan: Plan) -> Iterator[str]:
    """Yield what the loss takes as publicly known about the records."""
    for stated in () if plan.data is None else plan.data.assumed:
        yield (
            f"The constants of the loss are taken as publicly known ({stated}): if they were "
            "computed from these records, that release isn't covered."
        )


def _mechanism(statement: Statement) -> Iterator[str]:
    plan = statement.step_plan
    if plan is None:
        yield from _learner(statement.plan)
        return
    yield f"Batches were drawn by the sampler {plan.sampler!r}, and accounted as such."
    yield _noise(plan, mechanism=plan.mechanism)
    yield _clipping(statement, plan)
    if plan.max_records_per_user is not None:
        yield (
            "In a step a user's records count as one average. Of a user with more than "
            f"{plan.max_records_per_user} records only the first so many, in the order of the "
            "data, take part."
        )
    yield "Every step was charged in the ledger before its noisy gradient was used."
    yield _FAULTY_RECORDS
    if not plan.reproducible:
        yield "Dropout and other randomness of the model came from a secret stream."
    if statement.independence is not None:
        yield _INDEPENDENCE[statement.independence]


def _noise(plan: Plan, *, mechanism: str) -> str:
    if plan.reproducible:
        return "Noise was seeded, so it gives no protection."
    return noise_level(mechanism=mechanism, secure=plan.secure, steps=plan.steps)


def _learner(plan: Plan) -> Iterator[str]:
    """Say what the claim of a learner without steps rests on."""
    yield f"The model was learned by {plan.learner!r} from the releases that are listed here alone."
    yield _noise(plan, mechanism=learner_noise(plan))
    yield "Every release was charged in the ledger before its noise was drawn."
    yield _FAULTY_SCORES if plan.learner == _CHOOSES else _FAULTY_RECORDS


def _clipping(statement: Statement, plan: StepPlan) -> str:
    clipped = f"Each {plan.unit}'s gradient was clipped"
    if plan.averages:
        clipped = "Averages of gradients were clipped"
    said = f"{clipped} ({plan.clipping}); a gradient that was not finite counted as zero."
    if plan.averages:
        said += _TURNED_UNDER_REPLACE_ONE if plan.relation == "replace_one" else _TURNED
    if statement.noisy_counts:
        said += _COUNTS
    if plan.failure_delta:
        delta = f"{plan.failure_delta:g}"
        said += f" Norms were estimated: {delta} of delta pays for bounds that may fail."
    return said


def _weights(statement: Statement) -> Iterator[str]:
    """Say what is taken for granted of the weights that training started from."""
    earlier = statement.plan.earlier
    chooses = statement.plan.learner == _CHOOSES
    if earlier is not None:
        start = "Candidates have" if chooses else "Training started from"
        for run in earlier.runs:
            ledger = f"{run.charged} charges, ledger head {run.ledger_head}"
            yield f"{start} the weights of the private run {run.run_dir} ({ledger})."
        yield _DISJOINT if earlier.records == "disjoint" else _SAME_RECORDS
    if chooses:
        yield _CANDIDATES
    if statement.public_weights:
        yield _TAKEN_AS_PUBLIC
    if statement.plan.own_module:
        yield _OWN_MODULE
