"""What a claim rests on, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dppipe.runs.statement.claims import units_of
from dppipe.runs.statement.noise_levels import noise_level

if TYPE_CHECKING:
    from dppipe.runs.statement.statement import Statement

_INDEPENDENCE = {
    "by construction": "Each record was evaluated alone, so that no record's gradient depends on another record.",
    "checked": "Records were evaluated in batches. That no record's gradient depends on another "
    "record was checked by value on made-up records before the first charge.",
}
_SPLIT = {
    "hash": "Records that didn't come in ready parts were split by a hash of each record, or of its "
    "user, with the public seed, so that none decides where another goes.",
    "position": "Records that didn't come in ready parts were split by their positions, drawn from the public seed.",
    None: "The records were not split by dppipe. Which ones were trained on is taken as decided without looking at the others.",
}
_SCHEDULE = {
    "committed": "Noise, sample rate and number of steps were fixed before the first release.",
    "filter": "Noise or sample rate followed released values. A filter admitted each step only while the budget lasted.",
}
_TURNED = {
    False: " One record can turn an average around, so noise is scaled to twice the bound.",
    True: " One record can turn an average around: the accountant counts twice the bound.",
}
_STOPPED = (
    "The run was stopped before its plan ended. When it stopped may depend on what was released, so "
    "the claim is what the whole plan can cost."
)
_TAKEN_AS_PUBLIC = (
    "The weights that training started from are in a file that isn't recognised as a private run's. "
    "They are taken as public: if they were trained on these records, the cost of that training "
    "adds."
)
_OWN_MODULE = "The weights that the module came with are taken as independent of the records: if they were trained on them, that cost adds."


def assumptions(statement: Statement) -> tuple[str, ...]:
    """Return what the claim rests on, one bullet each; nothing for a run that makes no claim by failing."""
    if not statement.private or statement.failed:
        return ()
    said = list(_mechanism(statement))
    said.append(_SCHEDULE[statement.schedule])
    if statement.status == "interrupted" or statement.stopped_early:
        said.append(_STOPPED)
    if statement.scaling_noise_multiplier is not None:
        said.append(_scaling(statement))
    said += _weights(statement)
    said.append(_SPLIT[statement.split])
    if statement.relation in ("zero_out", "replace_one"):
        said.append(f"The number of {units_of(statement.unit)} is public.")
    return tuple(said)


def _mechanism(statement: Statement) -> Iterator[str]:
    yield f"Batches were drawn by the sampler {statement.sampler!r}, and accounted as such."
    if statement.reproducible:
        yield "Noise was seeded, so it gives no protection."
    else:
        yield noise_level(mechanism=statement.mechanism, secure=statement.secure)
    yield _clipping(statement)
    if statement.max_records_per_user is not None:
        yield (
            f"In a step a user's records count as one average. Of a user with more than "
            f"{statement.max_records_per_user} records only the first so many, in the order of the "
            "data, take part."
        )
    yield "Every step was charged in the ledger before its noisy gradient was used."
    yield (
        "From the first charge on, a record that could not be read, collated or evaluated contributed nothing, and ended nothing."
    )
    if not statement.reproducible:
        yield "Dropout and other randomness of the model came from a secret stream."
    if statement.independence is not None:
        yield _INDEPENDENCE[statement.independence]


def _clipping(statement: Statement) -> str:
    clipped = f"Each {statement.unit}'s gradient was clipped ({statement.clipping})"
    if statement.averages:
        clipped = f"Averages of gradients were clipped ({statement.clipping})"
    said = f"{clipped}; a gradient that was not finite counted as zero."
    if statement.averages:
        said += _TURNED[statement.relation == "replace_one"]
    if statement.noisy_counts:
        said += " Noisy counts of unclipped ones were released too, within each step's noise multiplier."
    if statement.failure_delta:
        delta = f"{statement.failure_delta:g}"
        said += f" Norms were estimated: {delta} of delta pays for bounds that may fail."
    return said


def _scaling(statement: Statement) -> str:
    named = statement.scaling_statistics or "statistics"
    noise = f"multiplier {statement.scaling_noise_multiplier:g}"
    return f"Inputs were scaled by {named} of the training records, released with noise ({noise}) and charged before the first step."


def _weights(statement: Statement) -> Iterator[str]:
    """Say what is taken for granted of the weights that training started from."""
    for one in statement.earlier:
        ledger = f"{one.charged} charges, ledger head {one.ledger_head}"
        yield f"Training started from the weights of the private run {one.run_dir} ({ledger})."
    if statement.earlier and statement.earlier_records == "disjoint":
        yield (
            "The spec states that no person has records in both: the larger of the two costs is claimed."
        )
    elif statement.earlier:
        yield (
            "The cost of that training is part of every epsilon here. "
            "The settings of this run are taken as chosen without looking at them."
        )
    if statement.pretrained:
        yield _TAKEN_AS_PUBLIC
    if statement.own_module:
        yield _OWN_MODULE
