"""The forms of what a claim rests on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from statements.facts import Facts, head_of, read_rows, says_statistics
from statements.forms import Check, form, fresh, pretrained, private, secure


def rests_on(pattern: str, due: Callable[[Facts], bool], check: Check = lambda facts: True) -> None:
    """Add a form that is due where a claim can be made: not of a run that failed."""
    form(pattern, lambda facts: due(facts) and not facts.failed, check)


def gaussian(facts: Facts) -> bool:
    return fresh(facts) and facts.mechanism == "gaussian"


rests_on(r"## What it rests on", private)
rests_on(
    r"Batches were drawn by the sampler '(\w+)', and accounted as such\.",
    private,
    lambda f, sampler: {sampler} == {row["sampler"] for row in f.steps} == {f.sampler},
)
rests_on(r"Noise was seeded, so it gives no protection\.", lambda f: f.seeded)
rests_on(
    r"Noise comes from AES-256 in counter mode, keyed by the operating system's entropy\.",
    gaussian,
)
rests_on(
    r"Noise is Laplace noise from AES-256 in counter mode, keyed by the operating system's "
    r"entropy\.",
    lambda f: fresh(f) and f.mechanism == "laplace",
)
rests_on(
    r"It is added in the precision of the gradients\.",
    lambda f: fresh(f) and not secure(f),
)
rests_on(
    r"Nothing is claimed against an attack on the low-order digits of floating-point numbers"
    r"( \(Mironov 2012\))?\.",
    lambda f: fresh(f) and not secure(f),
    lambda f, cited: bool(cited) == (f.mechanism == "laplace"),
)
rests_on(
    r"Each value is half the sum of four float64 Gaussians \(Holohan and Braghin 2021\)\.", secure
)
rests_on(
    r"Clipped sums and noise are rounded to a common grid, 2\^36 points or more to a standard "
    r"deviation, "
    r"before they are added, so the low-order digits of a release carry nothing \(Mironov 2012\)\.",
    secure,
)
rests_on(
    r"The noise is raised by what the rounding can add to the sensitivity, for noise multipliers "
    r"up to 1024\.",
    secure,
    lambda f: all(row["noise_multiplier"] <= 1024 for row in f.rows),
)
rests_on(
    r"The clipped sums themselves are computed in floating point: their own rounding error is not "
    r"covered\.",
    secure,
)
rests_on(
    r"Each (\w+)'s gradient was clipped \((\w+)\); a gradient that was not finite counted as "
    r"zero\.",
    lambda f: f.private and not f.averages,
    lambda f, unit, clipping: (unit, clipping) == (f.unit, f.clipping),
)
rests_on(
    r"Averages of gradients were clipped \((\w+)\); a gradient that was not finite counted as "
    r"zero\.",
    lambda f: f.private and f.averages,
    lambda f, clipping: clipping == f.clipping,
)
rests_on(
    r"One record can turn an average around, so noise is scaled to twice the bound\.",
    lambda f: f.private and f.averages and f.relation != "replace_one",
)
rests_on(
    r"One record can turn an average around: the accountant counts twice the bound\.",
    lambda f: f.private and f.averages and f.relation == "replace_one",
)
rests_on(
    r"Noisy counts of unclipped ones were released too, within each step's noise multiplier\.",
    lambda f: f.clipping == "adaptive",
    lambda f: len({row["max_grad_norm"] for row in f.steps}) > 1,
)
rests_on(
    r"Norms were estimated: (\S+) of delta pays for bounds that may fail\.",
    lambda f: f.clipping == "jl",
    lambda f, delta: float(delta) == f.option("clipping", "delta"),
)
rests_on(
    r"In a step a user's records count as one average\.",
    lambda f: f.private and f.sampler == "user",
)
rests_on(
    r"Of a user with more than (\d+) records only the first so many, in the order of the data, "
    r"take part\.",
    lambda f: f.private and f.sampler == "user",
    lambda f, count: int(count) == f.max_records_per_user,
)
rests_on(
    r"Every step was charged in the ledger before its noisy gradient was used\.",
    private,
    lambda f: f.summary["steps"] <= len(f.steps),
)
rests_on(
    r"From the first charge on, a record that could not be read, collated or evaluated "
    r"contributed nothing, "
    r"and ended nothing\.",
    private,
)
rests_on(r"Dropout and other randomness of the model came from a secret stream\.", fresh)
rests_on(
    r"Each record was evaluated alone, so that no record's gradient depends on another record\.",
    lambda f: f.private and f.summary["independence"] == "by construction",
    lambda f: f.config is None,  # a module with a training_step alone
)
rests_on(r"Records were evaluated in batches\.", lambda f: f.private and f.config is not None)
rests_on(
    r"That no record's gradient depends on another record was checked by value on made-up records "
    r"before the "
    r"first charge\.",
    lambda f: f.private and f.summary["independence"] == "checked",
    lambda f: f.config is not None,
)
rests_on(
    r"Noise, sample rate and number of steps were fixed before the first release\.",
    lambda f: f.private and not f.adaptive,
    lambda f: len({row["noise_multiplier"] for row in f.steps}) == 1,
)
rests_on(
    r"Noise or sample rate followed released values\.",
    lambda f: f.private and f.adaptive,
    lambda f: len({row["noise_multiplier"] for row in f.steps}) > 1,
)
rests_on(
    r"A filter admitted each step only while the budget lasted\.",
    lambda f: f.private and f.adaptive,
    lambda f: f.spent is not None and f.spent <= f.budget,
)
rests_on(r"The run was stopped before its plan ended\.", lambda f: f.stopped)
rests_on(
    r"When it stopped may depend on what was released, so the claim is what the whole plan can "
    r"cost\.",
    lambda f: f.stopped,
    lambda f: len(f.steps) < (f.asked_steps or 0),
)
rests_on(
    r"Inputs were scaled by (.+) of the training records, released with noise \(multiplier "
    r"(\S+)\) and charged "
    r"before the first step\.",
    lambda f: f.private and f.statistics is not None,
    lambda f, named, noise: says_statistics(f, named, noise) and f.rows[0]["what"] == "statistics",
)


def says_earlier(facts: Facts, run_dir: str, charged: str, head: str) -> bool:
    if facts.earlier is None or str(Path(facts.earlier["path"]).parents[1]) != run_dir:
        return False
    rows = read_rows(Path(run_dir))
    return int(charged) == sum(row["count"] for row in rows) and head == head_of(Path(run_dir))


def earlier_same(facts: Facts) -> bool:
    return facts.earlier is not None and facts.earlier["records"] == "same"


rests_on(
    r"Training started from the weights of the private run (\S+) \((\d+) charges, ledger head "
    r"(\w+)\)\.",
    lambda f: f.earlier is not None,
    says_earlier,
)
rests_on(
    r"The spec states that no person has records in both: the larger of the two costs is claimed\.",
    lambda f: f.earlier is not None and not earlier_same(f),
)
rests_on(r"The cost of that training is part of every epsilon here\.", earlier_same)
rests_on(r"The settings of this run are taken as chosen without looking at them\.", earlier_same)
rests_on(
    r"The weights that training started from are in a file that isn't recognised as a private "
    r"run's\.",
    pretrained,
)
rests_on(
    r"They are taken as public: if they were trained on these records, the cost of that training "
    r"adds\.",
    pretrained,
)
rests_on(
    r"The weights that the module came with are taken as independent of the records: if they were "
    r"trained on "
    r"them, that cost adds\.",
    lambda f: f.config is None,
)
rests_on(
    r"Records that didn't come in ready parts were split by a hash of each record, or of its "
    r"user, with the "
    r"public seed, so that none decides where another goes\.",
    lambda f: (
        f.private
        and f.config is not None
        and f.relation == "add_remove"
        and not f.split_by_position
    ),
    lambda f: f.plan["split"] == "hash",
)
rests_on(
    r"Records that didn't come in ready parts were split by their positions, drawn from the "
    r"public seed\.",
    lambda f: (
        f.private and f.config is not None and (f.relation != "add_remove" or f.split_by_position)
    ),
    lambda f: f.plan["split"] == "position",
)
rests_on(
    r"The records were not split by dppipe\.",
    lambda f: f.config is None,
    lambda f: f.plan["split"] is None,
)
rests_on(
    r"Which ones were trained on is taken as decided without looking at the others\.",
    lambda f: f.config is None,
)
rests_on(
    r"The number of (\w+) is public\.",
    lambda f: f.private and f.relation != "add_remove",
    lambda f, units: units == f.units,
)
