"""The forms of what a claim rests on, of its numbers, of releases and of what isn't covered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from statements.facts import Facts, is_near, is_shown, read_rows
from statements.forms import always, form, private

# What it rests on.


def fresh(facts: Facts) -> bool:
    return facts.private and not facts.seeded


def gaussian(facts: Facts) -> bool:
    return fresh(facts) and facts.mechanism == "gaussian"


def secure(facts: Facts) -> bool:
    return facts.private and bool(facts.option("noise", "secure"))


form(r"## What it rests on", private)
form(
    r"Batches were drawn by the sampler '(\w+)', and accounted as such\.",
    private,
    lambda f, sampler: {sampler} == {row["sampler"] for row in f.steps} == {f.sampler},
)
form(r"Noise was seeded, so it gives no protection\.", lambda f: f.seeded)
form(
    r"Noise comes from AES-256 in counter mode, keyed by the operating system's entropy\.",
    gaussian,
)
form(
    r"Noise is Laplace noise from AES-256 in counter mode, keyed by the operating system's entropy\.",
    lambda f: fresh(f) and f.mechanism == "laplace",
)
form(
    r"It is added in the precision of the gradients\.",
    lambda f: fresh(f) and not secure(f),
)
form(
    r"Nothing is claimed against an attack on the low-order digits of floating-point numbers"
    r"( \(Mironov 2012\))?\.",
    lambda f: fresh(f) and not secure(f),
    lambda f, cited: bool(cited) == (f.mechanism == "laplace"),
)
form(r"Each value is half the sum of four float64 Gaussians \(Holohan and Braghin 2021\)\.", secure)
form(
    r"Clipped sums and noise are rounded to a common grid, 2\^36 points or more to a standard deviation, "
    r"before they are added, so the low-order digits of a release carry nothing \(Mironov 2012\)\.",
    secure,
)
form(
    r"The noise is raised by what the rounding can add to the sensitivity, for noise multipliers up to 1024\.",
    secure,
    lambda f: all(row["noise_multiplier"] <= 1024 for row in f.rows),
)
form(
    r"The clipped sums themselves are computed in floating point: their own rounding error is not covered\.",
    secure,
)
form(
    r"Each (\w+)'s gradient was clipped \((\w+)\); a gradient that was not finite counted as zero\.",
    lambda f: f.private and not f.averages,
    lambda f, unit, clipping: (unit, clipping) == (f.unit, f.clipping),
)
form(
    r"Averages of gradients were clipped \((\w+)\); a gradient that was not finite counted as zero\.",
    lambda f: f.private and f.averages,
    lambda f, clipping: clipping == f.clipping,
)
form(
    r"One record can turn an average around, so noise is scaled to twice the bound\.",
    lambda f: f.private and f.averages and f.relation != "replace_one",
)
form(
    r"One record can turn an average around: the accountant counts twice the bound\.",
    lambda f: f.private and f.averages and f.relation == "replace_one",
)
form(
    r"Noisy counts of unclipped ones were released too, within each step's noise multiplier\.",
    lambda f: f.clipping == "adaptive",
    lambda f: len({row["max_grad_norm"] for row in f.steps}) > 1,
)
form(
    r"Norms were estimated: (\S+) of delta pays for bounds that may fail\.",
    lambda f: f.clipping == "jl",
    lambda f, delta: float(delta) == f.option("clipping", "delta"),
)
form(
    r"In a step a user's records count as one average\.",
    lambda f: f.private and f.sampler == "user",
)
form(
    r"Of a user with more than (\d+) records only the first so many, in the order of the data, take part\.",
    lambda f: f.private and f.sampler == "user",
    lambda f, count: int(count) == f.max_records_per_user,
)
form(
    r"Every step was charged in the ledger before its noisy gradient was used\.",
    private,
    lambda f: f.summary["steps"] <= len(f.steps),
)
form(
    r"From the first charge on, a record that could not be read, collated or evaluated contributed nothing, "
    r"and ended nothing\.",
    private,
)
form(r"Dropout and other randomness of the model came from a secret stream\.", fresh)
form(
    r"Each record was evaluated alone, so that no record's gradient depends on another record\.",
    lambda f: f.private and f.summary["independence"] == "by construction",
    lambda f: f.config is None,  # a module with a training_step alone
)
form(r"Records were evaluated in batches\.", lambda f: f.private and f.config is not None)
form(
    r"That no record's gradient depends on another record was checked by value on made-up records before the "
    r"first charge\.",
    lambda f: f.private and f.summary["independence"] == "checked",
    lambda f: f.config is not None,
)
form(
    r"Noise, sample rate and number of steps were fixed before the first release\.",
    lambda f: f.private and not f.adaptive,
    lambda f: len({row["noise_multiplier"] for row in f.steps}) == 1,
)
form(
    r"Noise or sample rate followed released values\.",
    lambda f: f.private and f.adaptive,
    lambda f: len({row["noise_multiplier"] for row in f.steps}) > 1,
)
form(
    r"A filter admitted each step only while the budget lasted\.",
    lambda f: f.private and f.adaptive,
    lambda f: f.spent is not None and f.spent <= f.budget,
)
form(r"The run was stopped before its plan ended\.", lambda f: f.status == "interrupted")
form(
    r"When it stopped may depend on what was released, so the claim is what the whole plan can cost\.",
    lambda f: f.status == "interrupted",
    lambda f: len(f.steps) < f.option("train", "steps"),
)
form(
    r"Inputs were scaled by (.+) of the training records, released with noise \(multiplier (\S+)\) and charged "
    r"before the first step\.",
    lambda f: f.private and f.statistics is not None,
    lambda f, named, noise: says_statistics(f, named, noise) and f.rows[0]["step"] == 0,
)


def says_statistics(facts: Facts, named: str, noise: str) -> bool:
    """Compare with the spec, the ledger's first row, and what the released file holds."""
    held = json.loads((facts.path / "statistics.json").read_text())
    given = facts.statistics or {}
    released = {"mean", "std"} <= set(held) and named == "means and deviations" and "bins" not in given
    return released and float(noise) == given["noise_multiplier"] == facts.rows[0]["noise_multiplier"]


def says_earlier(facts: Facts, run_dir: str, charged: str, head: str) -> bool:
    if facts.earlier is None or str(Path(facts.earlier["path"]).parents[1]) != run_dir:
        return False
    rows = read_rows(Path(run_dir))
    return int(charged) == sum(row["count"] for row in rows) and head == head_of(Path(run_dir))


def head_of(path: Path) -> str:
    import hashlib

    lines = (path / "ledger.jsonl").read_bytes().splitlines()
    return hashlib.sha256(lines[-1] if lines else (path / "plan.json").read_bytes()).hexdigest()


def pretrained(facts: Facts) -> bool:
    return facts.option("model", "pretrained") is not None and facts.earlier is None


def earlier_same(facts: Facts) -> bool:
    return facts.earlier is not None and facts.earlier["records"] == "same"


form(
    r"Training started from the weights of the private run (\S+) \((\d+) charges, ledger head (\w+)\)\.",
    lambda f: f.earlier is not None,
    says_earlier,
)
form(
    r"The spec states that no person has records in both: the larger of the two costs is claimed\.",
    lambda f: f.earlier is not None and not earlier_same(f),
)
form(r"The cost of that training is part of every epsilon here\.", earlier_same)
form(r"The settings of this run are taken as chosen without looking at them\.", earlier_same)
form(
    r"The weights that training started from are in a file that isn't recognised as a private run's\.",
    pretrained,
)
form(
    r"They are taken as public: if they were trained on these records, the cost of that training adds\.",
    pretrained,
)
form(
    r"The weights that the module came with are taken as independent of the records: if they were trained on "
    r"them, that cost adds\.",
    lambda f: f.config is None,
)
form(
    r"Records that didn't come in ready parts were split by a hash of each record, or of its user, with the "
    r"public seed, so that none decides where another goes\.",
    lambda f: f.private and f.config is not None and f.relation == "add_remove" and not f.split_by_position,
    lambda f: f.plan["split"] == "hash",
)
form(
    r"Records that didn't come in ready parts were split by their positions, drawn from the public seed\.",
    lambda f: f.private and f.config is not None and (f.relation != "add_remove" or f.split_by_position),
    lambda f: f.plan["split"] == "position",
)
form(
    r"The records were not split by dppipe\.",
    lambda f: f.config is None,
    lambda f: f.plan["split"] is None,
)
form(
    r"Which ones were trained on is taken as decided without looking at the others\.",
    lambda f: f.config is None,
)
form(
    r"The number of (\w+) is public\.",
    lambda f: f.private and f.relation != "add_remove",
    lambda f, units: units == f.units,
)

# The numbers.


def says_range(name: str) -> Any:
    """Return a check of a row's two cells: as planned, and least and most in the ledger."""

    def check(facts: Facts, planned: str, executed: str) -> bool:
        values = [row[name] for row in facts.steps]
        done = [float(value) for value in executed.split(" to ")]
        near = [f"{least:.6g}" for least in (min(values), max(values))]
        if [f"{value:.6g}" for value in (done[0], done[-1])] != near:
            return False
        given = {
            "sample_rate": facts.steps[0]["sample_rate"],
            "noise_multiplier": facts.option("noise", "noise_multiplier", 2.0),
            "max_grad_norm": facts.option("clipping", "max_grad_norm", 1.0),
        }
        return float(planned) == given[name]

    return check


def says_steps(facts: Facts, planned: str, executed: str) -> bool:
    asked = facts.option("train", "steps", facts.plan["steps"])
    return int(planned) == asked == facts.plan["steps"] and int(executed) == len(facts.steps)


def updates_of(facts: Facts, name: str) -> int:
    """Return how many updates the last checkpoint holds."""
    import torch

    last = torch.load(facts.path / "checkpoints" / "last.ckpt", weights_only=True)
    return int(last["global_step"])


def says_kept(facts: Facts, kept: str, charged: str) -> bool:
    held = (int(kept), int(charged)) == (facts.once("updates", updates_of), len(facts.steps))
    return held and int(kept) == facts.summary["steps"]


form(r"## The numbers", private)
form(r"\| \| planned \| executed \|", private)
form(r"\| steps \| (\d+) \| (\d+) \|", private, says_steps)
for word in ("sample_rate", "noise_multiplier", "max_grad_norm"):
    form(rf"\| {word.replace('_', ' ')} \| (\S+) \| (.+) \|", private, says_range(word))
form(
    r"\| mechanism \| (\w+) \| (\w+) \|",
    private,
    lambda f, *names: set(names) == {f.option("noise", "mechanism", "gaussian"), f.mechanism},
)
form(
    r"(\d+) of the (\d+) charged steps are in the weights\.",
    lambda f: f.private and not f.failed,
    says_kept,
)


def has_curve(facts: Facts) -> bool:
    return facts.protects and not facts.adaptive


def says_point(facts: Facts, delta: str, epsilon: str) -> bool:
    known = dict(zip(facts.plan["whole_curve"]["deltas"], facts.plan["whole_curve"]["epsilons"], strict=True))
    right = float(delta) in known and is_shown(epsilon, known[float(delta)])
    return right and is_near(known[float(delta)], facts.cost(facts.planned_rows, float(delta)))


form(r"## The whole curve", has_curve)
form(r"The whole plan at other deltas:", has_curve)
form(r"\| delta \| epsilon \|", has_curve)
form(
    r"\| (\d\S*) \| (\d\S*) \|",
    lambda f: len(f.plan["whole_curve"]["deltas"]) if has_curve(f) else 0,
    says_point,
)

# What was released.


def left(*names: str) -> Any:
    """Return whether a run that didn't fail has left these files."""
    return lambda facts: not facts.failed and set(names) <= facts.files


form(r"## What was released", always)
form(r"Nothing under a claim\.", lambda f: f.failed)
form(r"The final weights, `(.+)`\.", left("checkpoints/final.ckpt"), lambda f, file: file in f.files)
form(
    r"The checkpoint to resume from, `(.+)`\.",
    left("checkpoints/last.ckpt"),
    lambda f, file: file in f.files,
)
form(
    r"The weights after every step, and so any checkpoint that was made of them\.",
    lambda f: f.private and not f.failed,
    lambda f: len(f.steps) > 0,
)
form(
    r"The noisy (.+) that inputs were scaled by \(noise multiplier (\S+)\), `(.+)`\.",
    left("statistics.json"),
    lambda f, named, noise, file: says_statistics(f, named, noise) and file in f.files,
)
form(
    r"Noisy counts of gradients that were not clipped: the bound follows them, in the curve "
    r"`privacy/max_grad_norm` and in the checkpoint\.",
    lambda f: f.clipping == "adaptive",
)
form(
    r"The curves under `privacy/` and `public/`, which follow from the spec and the above\.",
    lambda f: f.private and not f.failed,
    lambda f: any(file.startswith("events.out.tfevents.") for file in f.files),
)

# What it doesn't cover.


def says_looks(facts: Facts, times: str) -> bool:
    """The curves hold every look; of a resumed run the statement counts some of them."""
    if times.startswith("at least "):
        counted = int(times.split()[2])
        return facts.starts > 1 and counted == facts.summary["validations"] <= facts.validations
    counted = 1 if times == "once" else int(times.split()[0])
    return facts.starts == 1 and counted == facts.summary["validations"] == facts.validations


def validated(holdout: str) -> Any:
    return lambda facts: facts.private and facts.validates and facts.holdout == holdout


def tested(holdout: str) -> Any:
    return lambda facts: facts.evaluations > 0 and facts.holdout == holdout


def says_tests(facts: Facts, times: str) -> bool:
    scored = list(facts.summary["test"])
    marked = all(name.startswith("nonprivate/test/") for name in scored) == (facts.holdout == "private")
    return marked and facts.evaluations == facts.summary["evaluations"] == (1 if times == "once" else int(times.split()[0]))


TIMES = r"(once|\d+ times|at least \d+ times)"
form(r"## What it doesn't cover", private)
form(
    r"No validation metrics were recorded\.",
    lambda f: f.private and not f.validates,
    lambda f: f.validations == 0,
)
form(
    r"The holdout was declared public: metrics on it cost nothing\.",
    validated("public"),
    lambda f: all(name.startswith("val/") for name in f.summary["metrics"]),
)
form(rf"They were recorded {TIMES}, under `val/`\.", validated("public"), says_looks)
form(r"What was logged while training was muted\.", validated("public"))
form(
    r"The holdout is private\.",
    validated("private"),
    lambda f: all(name.startswith("nonprivate/val/") for name in f.summary["metrics"]),
)
form(
    rf"Metrics on it were recorded {TIMES}, under `nonprivate/val/`, and carry no noise\.",
    validated("private"),
    says_looks,
)
form(
    r"Don't release them, nor choose a model by them\.",
    lambda f: validated("private")(f) + tested("private")(f),
)
form(rf"The test split was looked at {TIMES}, by `dppipe evaluate`\.", lambda f: f.evaluations > 0, says_tests)
form(r"It was declared public: its scores need no protection\.", tested("public"))
form(r"It is private: its scores, under `nonprivate/test/`, carry no noise\.", tested("private"))


def diagnosed(facts: Facts) -> bool:
    return facts.private and bool(facts.config) and facts.config["diagnostics"] == "nonprivate"


form(r"Training diagnostics were recorded without noise, under `nonprivate/`\.", diagnosed)
form(r"Don't release them\.", diagnosed)
form(r"No training diagnostics were recorded\.", lambda f: f.private and not diagnosed(f))
form(
    r"Other runs on the same records, and hyper-parameters chosen by looking at such runs, are not accounted "
    r"for: their costs add to this one\.",
    lambda f: f.private and "scope" not in f.known,
)


def in_scope(facts: Facts) -> bool:
    return "scope" in facts.known


def says_terms(facts: Facts, epsilon: str, delta: str) -> bool:
    known = facts.known["scope"]
    return (float(epsilon), float(delta)) == (known["epsilon"], known["delta"])


def says_share(facts: Facts, runs: str, share: str) -> bool:
    held, used = facts.once("held", held_of_scope)
    return int(runs) == facts.known["scope"]["runs"] == held and is_shown(share, 100 * used, digits=3)


def held_of_scope(facts: Facts, name: str) -> tuple[int, float]:
    """Add up the last settlement of every other run and this run's own reservation."""
    from dppipe.budgets.store import Store

    store = Store(facts.path.parent / "budgets.db")
    history = store.history("clinic")
    mine = [entry for entry in history if Path(entry.run_dir) == facts.path]
    others = {entry.run_id: entry for entry in history if Path(entry.run_dir) != facts.path}
    held = [*others.values(), next(entry for entry in mine if entry.state == "reserved")]
    used = sum(entry.cost.amount for entry in held) / store.status("clinic").scope.capacity.amount
    return len(held), used


form(
    r"This run is charged to the budget scope '(\w+)', too\.",
    in_scope,
    lambda f, name: name == f.option("budget", "scope"),
)
form(
    r"All runs of the scope together cost at most epsilon (\S+) at delta (\S+), however each was chosen\.",
    in_scope,
    says_terms,
)
form(
    r"With the whole plan of this run set aside, (\d+) runs? held (\S+) % of it\.",
    in_scope,
    says_share,
)
form(
    r"`dppipe budget show (\w+)` shows what is used now\.",
    in_scope,
    lambda f, name: name == f.option("budget", "scope"),
)
form(r"Runs outside of the scope are not accounted for: their costs add\.", in_scope)
form(
    r"How long a step or the run took, and how much memory it used, can depend on the records\.",
    private,
)
form(r"A run that memory or a disk has failed may have failed because of a record\.", private)
form(
    r"Code of your own that writes files, global variables or logs by itself is outside too\.",
    private,
)


def refuses(facts: Facts) -> bool:
    return facts.private and facts.on_bad_record == "refuse"


form(
    r"`data\.on_bad_record` is refuse: the run would not have started had a record been unusable\.",
    refuses,
)
form(r"That it started tells that all records were usable\.", refuses)
form(
    r"What was learned from private records before training \(means, vocabularies\) is not covered"
    r"(, but for the scaling of inputs, which was charged)?\.",
    private,
    lambda f, scaled: bool(scaled) == (f.statistics is not None),
)
form(r"The proofs are over real numbers\.", private)
form(
    r"Noise and sums are rounded to floating point\.",
    lambda f: f.private and not secure(f),
)
form(
    r"Noise and sums were added on a common grid; the sums themselves were computed in floating point\.",
    secure,
)
form(r"Whoever runs the training sees the records \(the central model\)\.", private)
form(
    r"Training started from weights that are taken as public: nothing is promised to the people behind the "
    r"records that they were trained on\.",
    pretrained,
)

# Made with.


def installed(facts: Facts, name: str, version: str) -> bool:
    import platform
    from importlib import metadata

    found = platform.python_version() if name == "python" else metadata.version(name)
    return version == found == facts.summary["versions"][name]


form(r"## Made with", always)
form(
    r"(python|dppipe|torch|pytorch-lightning|dp-accounting|numpy|scipy) (\d\S*)",
    lambda f: len(f.summary["versions"]),
    installed,
)
form(r"config (\w{64})", lambda f: f.config is not None, lambda f, found: found == f.config_hash)
form(r"ledger head (\w{64})", always, lambda f, found: found == head_of(f.path) == f.summary["ledger_head"])
