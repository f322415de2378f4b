"""The privacy statement as prose a person likes to read: `privacy.md`."""

from __future__ import annotations

from collections.abc import Iterator

from dppipe.privacy.claims import shown, shown_delta
from dppipe.privacy.statement import Course, Statement


def statement_text(statement: Statement) -> str:
    """Write a statement as Markdown; the guarantee stands on top, in two sentences."""
    return "\n".join(_lines(statement)) + "\n"


def _lines(statement: Statement) -> Iterator[str]:
    first, second = statement.guarantee()
    yield f"# Privacy of {statement.name}"
    yield f"\n**{first}**\n{second}"
    if statement.private:
        yield from _claim(statement)
        yield "\n## What it rests on\n"
        yield from (f"- {sentence}" for sentence in statement.assumptions())
        yield from _numbers(statement)
        yield from _curve(statement)
    yield "\n## What was released\n"
    yield f"{_listed(statement.released).capitalize()}." if statement.released else "Nothing."
    if statement.private:
        yield "\n## What it doesn't cover\n"
        yield from (f"- {sentence}" for sentence in statement.not_covered().values())
    yield from _provenance(statement)


def _claim(statement: Statement) -> Iterator[str]:
    yield "\n## The claim\n"
    yield "| | |\n|---|---|"
    yield f"| protected unit | one {statement.unit} |"
    yield f"| neighbouring relation | {statement.relation} |"
    if statement.epsilon is not None:
        yield f"| epsilon | {shown(statement.epsilon)} (rounded up) |"
    if statement.epsilon_spent is not None and statement.epsilon_spent != statement.epsilon:
        yield f"| spent by the executed steps | {shown(statement.epsilon_spent)} |"
    if statement.budget_epsilon is not None:
        yield f"| budget | {statement.budget_epsilon:g} |"
    yield f"| delta | {shown_delta(statement.delta or 0.0)} |"
    version = statement.versions.get("dp-accounting")
    yield f"| accountant | {statement.accountant}{f' (dp-accounting {version})' if version else ''} |"
    yield f"| status | {_status(statement)} |"
    yield f"| the run | {_ended(statement)} |"
    if statement.audit:
        yield f"| audit | {statement.audit} (a lower bound, not a proof) |"


def _status(statement: Statement) -> str:
    if statement.failed:
        return "NO CLAIM: the run failed"
    return "certified: a proven upper bound" if statement.certified else "ESTIMATE: not a bound"


def _ended(statement: Statement) -> str:
    status = statement.status.replace("_", " ")
    if not statement.stopped_early:
        return status
    return f"{status}: a callback stopped it early; the claim is for all planned steps"


def _numbers(statement: Statement) -> Iterator[str]:
    planned, executed = statement.planned, statement.executed
    if planned is None:
        return
    courses = [planned] if executed is None else [planned, executed]
    yield "\n## The numbers\n"
    yield "| | planned |" + (" executed |" if executed else "")
    yield "|---|" + "---|" * len(courses)
    yield _row("steps", [str(course.steps) for course in courses])
    for name in ("sample_rate", "noise_multiplier", "max_grad_norm"):
        yield _row(name.replace("_", " "), [_range(course, name) for course in courses])
    yield _row("mechanism", [statement.mechanism] * len(courses))
    if statement.records is not None:
        yield _row("users (public)" if statement.unit == "user" else "records (public)", [str(statement.records)] * len(courses))


def _curve(statement: Statement) -> Iterator[str]:
    epsilons, deltas = statement.curve.get("epsilons"), statement.curve.get("deltas")
    if epsilons and deltas:
        yield "\n## The whole curve\n"
        yield "The same run at other deltas:\n"
        yield "| delta | epsilon |\n|---|---|"
        yield from (f"| {shown_delta(delta)} | {shown(epsilon)} |" for delta, epsilon in zip(deltas, epsilons, strict=True))


def _provenance(statement: Statement) -> Iterator[str]:
    said = [
        *(f"{name} {version}" for name, version in statement.versions.items()),
        *([f"config {statement.config_hash}"] if statement.config_hash else []),
        *([f"ledger head {statement.ledger_head}"] if statement.ledger_head else []),
    ]
    if said:
        yield "\n## Made with\n"
        yield from (f"- {line}" for line in said)


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _range(course: Course, name: str) -> str:
    least, most = getattr(course, name)
    return f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
