"""The privacy statement as Markdown: `privacy.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.statement.assumptions import assumptions
from dppipe.runs.statement.attacks import (
    HEADING,
    attack_introduction,
    attack_sentences,
    recognition_rows,
    stated_limits,
)
from dppipe.runs.statement.claims import units_of
from dppipe.runs.statement.comparisons import comparison
from dppipe.runs.statement.exclusions import not_covered
from dppipe.runs.statement.other_releases import planned_phrase
from dppipe.runs.statement.releases import released
from dppipe.runs.statement.step_ranges import planned_ranges

if TYPE_CHECKING:
    from dppipe.planning.data_source import DataSource
    from dppipe.planning.plan import Plan
    from dppipe.runs.statement.statement import Statement
    from dppipe.runs.statement.step_ranges import Range

_STATUS = {
    "not private": "NO CLAIM: the run has no budget",
    "failed": "NO CLAIM: the run failed",
    "seeded": "NO CLAIM: sampler and noise were seeded",
    "no claim": "NO CLAIM: the split is not covered",
    "certified": "certified: a proven upper bound",
    "estimate": "ESTIMATE: not a bound",
}


def statement_text(statement: Statement) -> str:
    """Write a statement as Markdown; the guarantee comes first, in two sentences."""
    return "\n".join(_lines(statement)) + "\n"


def _lines(statement: Statement) -> Iterator[str]:
    first, second = statement.guarantee()
    private = statement.plan.private
    yield f"# Privacy of {statement.plan.name}"
    yield f"\n**{first}**\n{second}"
    yield "\n## The claim\n" if private else "\n## The run\n"
    yield "| | |\n|---|---|"
    if private:
        yield from _claim(statement)
    yield from _run(statement)
    compared = comparison(statement)
    if compared is not None:
        yield f"\n{compared}"
    yield from _attacks(statement)
    rests_on = assumptions(statement)
    if rests_on:
        yield "\n## What it rests on\n"
        yield from _bullets(rests_on)
    if private:
        yield from _numbers(statement)
        yield from _curve(statement)
    yield "\n## What was released\n"
    yield from _bullets(released(statement) or ("Nothing under a claim.",))
    if private:
        yield "\n## What it doesn't cover\n"
        yield from _bullets(not_covered(statement).values())
    elif statement.test_looks:
        yield "\n## What was looked at\n"
        yield from _bullets([not_covered(statement)["test_split"]])
    yield from _provenance(statement)


def _claim(statement: Statement) -> Iterator[str]:
    plan = statement.plan
    yield _row("protected unit", protected_unit(plan))
    if plan.max_records_per_user is not None:
        yield _row("records of a user", f"at most {plan.max_records_per_user} in a step")
    yield _row("neighbouring relation", str(plan.relation))
    if plan.epsilon is not None:
        named = "epsilon" if statement.protects else "epsilon of the plan"
        yield _row(named, f"{shown(plan.epsilon)} (rounded up)")
    if statement.epsilon_spent is not None and statement.epsilon_spent != plan.epsilon:
        yield _row("spent by the executed steps", shown(statement.epsilon_spent))
    yield _row("delta", shown_delta(plan.delta or 0.0))
    if plan.budget_epsilon is not None:
        yield _row("budget", f"epsilon {plan.budget_epsilon:g}")
    if plan.scope is not None:
        yield _row("budget scope", plan.scope)
    yield _row("accountant", accountant_named(statement))
    yield _row("status", _STATUS[statement.status_of_claim])
    if statement.audit:
        yield _row("audit", f"{statement.audit} (a lower bound, not a proof)")


def _run(statement: Statement) -> Iterator[str]:
    plan = statement.plan
    early = ": a callback stopped it early" if statement.stopped_early else ""
    yield _row("the run", statement.status.replace("_", " ") + early)
    if statement.kind is not None:
        yield _row("kind", statement.kind)
    if statement.begun is not None:
        yield _row("begun", _minute(statement.begun))
    if statement.ended is not None:
        yield _row("ended", _minute(statement.ended))
    if statement.starts > 1:
        resumed = statement.starts - 1
        yield _row("resumed", "once" if resumed == 1 else f"{resumed} times")
    if plan.data is not None:
        yield _row("data", source_named(plan.data))
        if plan.data.bounds:
            yield _row("values held to public bounds", "; ".join(plan.data.bounds))
        if plan.data.public_files:
            yield _row("files taken as public", ", ".join(plan.data.public_files))
    if plan.records is not None:
        public = " (public)" if plan.private else ""
        yield _row(f"training {units_of(plan.unit)}{public}", str(plan.records))


def _attacks(statement: Statement) -> Iterator[str]:
    """Say what any attacker can reach, where something is claimed."""
    limits = stated_limits(statement)
    if limits is None:
        return
    yield "\n## What an attacker can do\n"
    yield "\n\n".join(attack_introduction(statement.plan))
    yield f"\n| {' | '.join(HEADING)} |\n|---|---|---|"
    for rate, *cells in recognition_rows(limits):
        yield _row(rate, *cells)
    yield ""
    yield from _bullets(attack_sentences(statement.plan, limits))


def protected_unit(plan: Plan) -> str:
    """Return what one protected unit is."""
    if plan.unit != "user":
        return f"one {plan.unit}: one training record"
    named = plan.data.user if plan.data is not None else None
    if named is None:
        return "one user: all training records of that user"
    return f"one user: all training records with one value of `{named}`"


def source_named(source: DataSource) -> str:
    """Return where the records come from."""
    files = ", ".join(f"`{file}`" for file in source.files)
    return f"{source.kind}: {files}" if files else source.kind


def accountant_named(statement: Statement) -> str:
    """Return the name of the code that computed epsilon."""
    plan = statement.plan
    version = statement.versions.get("dppipe")
    named = f"{plan.accountant}, dppipe's own code"
    if version is not None:
        named += f" (version {version})"
    steps = statement.step_plan
    drawn = None if steps is None else steps.sampler
    if plan.accountant == "rdp" and drawn == "without_replacement":
        named += f", with Renyi divergences by dp-accounting {statement.versions['dp-accounting']}"
    return named


def _minute(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M} UTC"


def _numbers(statement: Statement) -> Iterator[str]:
    planned = planned_ranges(statement.plan)
    executed = statement.executed
    steps = statement.step_plan
    if planned is None or steps is None:
        yield from _releases(statement)
        return
    columns = [planned]
    heading = "| | planned |"
    if executed is not None:
        columns.append(executed)
        heading += " executed |"
    yield "\n## The numbers\n"
    yield heading
    yield "|---|" + "---|" * len(columns)
    yield _row("steps", *(str(column.steps) for column in columns))
    yield _row("sample rate", *(_range(column.sample_rate) for column in columns))
    yield _row("noise multiplier", *(_range(column.noise_multiplier) for column in columns))
    yield _row("max grad norm", *(_range(column.max_grad_norm) for column in columns))
    yield _row("mechanism", *[steps.mechanism] * len(columns))
    if executed is not None and statement.updates is not None and not statement.failed:
        kept = f"{statement.updates} of the {executed.steps} charged steps are in the weights."
        yield f"\n{kept}"


def _releases(statement: Statement) -> Iterator[str]:
    """Lay out the releases of a learner without steps."""
    yield "\n## The numbers\n"
    yield "| release | event | times | released |"
    yield "|---|---|---|---|"
    for number, release in enumerate(statement.plan.releases):
        out = "yes" if number < statement.other_releases else "no"
        yield _row(planned_phrase(release), release.event["type"], str(release.count), out)


def _curve(statement: Statement) -> Iterator[str]:
    curve = statement.plan.whole_curve
    epsilons = curve.get("epsilons")
    deltas = curve.get("deltas")
    if epsilons and deltas and statement.protects:
        yield "\n## The whole curve\n"
        yield "The whole plan at other deltas:\n"
        yield "| delta | epsilon |\n|---|---|"
        for delta, epsilon in zip(deltas, epsilons, strict=True):
            yield _row(shown_delta(delta), shown(epsilon))


def _provenance(statement: Statement) -> Iterator[str]:
    said = [f"{name} {version}" for name, version in statement.versions.items()]
    if statement.config_hash:
        said.append(f"config {statement.config_hash}")
    if statement.ledger_head:
        said.append(f"ledger head {statement.ledger_head}")
    if said:
        yield "\n## Made with\n"
        yield from _bullets(said)


def _bullets(sentences: Iterable[str]) -> Iterator[str]:
    for sentence in sentences:
        yield f"- {sentence}"


def _row(name: str, *cells: str) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _range(values: Range) -> str:
    least, most = values
    return f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}"
