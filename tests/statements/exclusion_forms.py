"""The forms of what a claim leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from statements.facts import Facts, is_shown
from statements.forms import form, pretrained, private, secure


def says_looks(facts: Facts, times: str) -> bool:
    """The curves hold every look; of a resumed run the statement counts some of them."""
    if times.startswith("at least "):
        counted = int(times.split()[2])
        return facts.starts > 1 and counted == facts.summary["validations"] <= facts.validations
    counted = 1 if times == "once" else int(times.split()[0])
    known = facts.known.get("validations", counted)
    return (
        facts.starts == 1 and counted == known == facts.summary["validations"] == facts.validations
    )


def validated(holdout: str) -> Any:
    return lambda facts: facts.private and facts.validations > 0 and facts.holdout == holdout


def tested(holdout: str) -> Any:
    return lambda facts: facts.evaluations > 0 and facts.holdout == holdout


def says_tests(facts: Facts, times: str) -> bool:
    scored = list(facts.summary["test"])
    marked = all(name.startswith("nonprivate/test/") for name in scored) == (
        facts.holdout == "private"
    )
    return marked and facts.evaluations == facts.summary["evaluations"] == (
        1 if times == "once" else int(times.split()[0])
    )


TIMES = r"(once|\d+ times|at least \d+ times)"
form(r"## What it doesn't cover", private)
form(
    r"No validation metrics were recorded\.",
    lambda f: f.private and not f.validations,
    lambda f: f.summary["validations"] == 0,
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
form(r"## What was looked at", lambda f: not f.private and f.evaluations > 0)
form(
    rf"The test split was looked at {TIMES}, by `dppipe evaluate`\.",
    lambda f: f.evaluations > 0,
    says_tests,
)
form(r"It was declared public: its scores need no protection\.", tested("public"))
form(r"It is private: its scores, under `nonprivate/test/`, carry no noise\.", tested("private"))


def diagnosed(facts: Facts) -> bool:
    return facts.private and bool(facts.config) and facts.config["diagnostics"] == "nonprivate"


form(r"Training diagnostics were recorded without noise, under `nonprivate/`\.", diagnosed)
form(r"Don't release them\.", diagnosed)
form(r"No training diagnostics were recorded\.", lambda f: f.private and not diagnosed(f))


def attacked(facts: Facts) -> bool:
    return any(file.startswith("nonprivate/attack/") for file in facts.files)


form(
    r"Attacks on the model used its training records and its holdout without noise\.",
    attacked,
)
form(r"What they found is under `nonprivate/attack/`\.", attacked)
form(r"Don't release it, nor choose a model by it\.", attacked)
form(
    r"Other runs on the same records, and hyper-parameters chosen by looking at such runs, are "
    r"not accounted "
    r"for: their costs add to this one\.",
    lambda f: f.private and "scope" not in f.known,
)


def in_scope(facts: Facts) -> bool:
    return "scope" in facts.known


def says_terms(facts: Facts, epsilon: str, delta: str) -> bool:
    known = facts.known["scope"]
    return (float(epsilon), float(delta)) == (known["epsilon"], known["delta"])


def says_spent(facts: Facts, runs: str, epsilon: str) -> bool:
    held, spent = facts.once("held", spent_of_scope)
    return int(runs) == facts.known["scope"]["runs"] == held and is_shown(epsilon, spent)


def spent_of_scope(facts: Facts, name: str) -> tuple[int, float]:
    """Add up the last settlement of every other run and this run's own reservation."""
    from dppipe.budgets.scopes import Status
    from dppipe.budgets.store import Store

    store = Store(facts.path.parent / "budgets.db")
    history = store.history("clinic")
    mine = [entry for entry in history if Path(entry.run_dir) == facts.path]
    others = {entry.run_id: entry for entry in history if Path(entry.run_dir) != facts.path}
    held = (*others.values(), next(entry for entry in mine if entry.state == "reserved"))
    return len(held), Status(store.status("clinic").scope, held).epsilon_spent


form(
    r"This run is charged to the budget scope '(\w+)', too\.",
    in_scope,
    lambda f, name: name == f.option("budget", "scope"),
)
form(
    r"All runs of the scope together cost at most epsilon (\S+) at delta (\S+), however each was "
    r"chosen\.",
    in_scope,
    says_terms,
)
form(
    r"With the whole plan of this run counted, its (\d+) runs? ha(?:s|ve) spent epsilon (\S+) of "
    r"that\.",
    in_scope,
    says_spent,
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
    r"Noise and sums were added on a common grid; the sums themselves were computed in floating "
    r"point\.",
    secure,
)
form(r"Whoever runs the training sees the records \(the central model\)\.", private)
form(
    r"Training started from weights that are taken as public: nothing is promised to the people "
    r"behind the "
    r"records that they were trained on\.",
    pretrained,
)
