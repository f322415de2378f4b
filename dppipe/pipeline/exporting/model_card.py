"""The model card: a page of Markdown that goes with an exported model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dppipe.pipeline.exporting.claim import Claim

_RELATIONS = {
    "zero_out": "zero_out: one {unit}'s contribution is there or is nothing",
    "add_remove": "add_remove: one {unit} is in the data or not",
    "replace_one": "replace_one: one {unit} is replaced by another",
}


@dataclass(frozen=True)
class Exported:
    """An exported file, for its card."""

    name: str
    """The file's name."""
    digest: str
    """Its SHA-256, in hexadecimal."""
    model: str
    """The kind of model, or the class that the user's own model has."""
    learner: str
    use: str
    """How to load it, in Markdown."""
    facts: dict[str, Any]
    """What it takes and returns."""


def model_card(exported: Exported, claim: Claim) -> str:
    """Return the card of an exported model: the claim first, then the model."""
    return "\n".join(_lines(exported, claim)) + "\n"


def _lines(exported: Exported, claim: Claim) -> Iterator[str]:
    yield f"# {claim.statement['name']}\n"
    yield "## Privacy\n"
    yield from _privacy(claim)
    yield "\n## Model\n"
    yield "| | |\n|---|---|"
    yield f"| file | `{exported.name}` |"
    yield f"| SHA-256 of the file | `{exported.digest}` |"
    yield f"| model | {exported.model} |"
    yield f"| learner | {exported.learner} |"
    yield from _interface(exported.facts)
    yield f"\n{exported.use}"
    if claim.scores:
        yield "\n## Scores on records declared public\n"
        yield "| | |\n|---|---|"
        for name, score in claim.scores.items():
            yield f"| `{name}` | {score:.4f} |"


def _privacy(claim: Claim) -> Iterator[str]:
    first, second = claim.statement["guarantee"]
    yield f"**{first}** {second}"
    if not claim.statement["protects"]:
        return
    facts = claim.facts
    unit = "user" if facts["unit"] == "user" else "record"
    yield "\n| | |\n|---|---|"
    yield f"| epsilon | {facts['epsilon']} (rounded up) |"
    yield f"| delta | {facts['delta']} |"
    yield f"| protected unit | {_unit(claim)} |"
    yield f"| relation | {_RELATIONS[facts['relation']].format(unit=unit)} |"
    yield f"| accountant | {facts['accountant']}: a proven upper bound |"
    yield f"| head of the ledger | `{claim.statement.get('ledger_head')}` |"
    yield "\nIt doesn't cover:\n"
    for sentence in claim.not_covered:
        yield f"- {sentence}"
    assumptions = claim.statement.get("assumptions") or []
    if assumptions:
        yield "\nIt rests on:\n"
        for sentence in assumptions:
            yield f"- {sentence}"


def _unit(claim: Claim) -> str:
    if claim.facts["unit"] != "user":
        return "one record (example)"
    most = claim.statement.get("max_records_per_user")
    return "one user" if most is None else f"one user, at most {most} records in a step"


def _interface(facts: dict[str, Any]) -> Iterator[str]:
    if not facts:
        return
    shape = ", ".join(["n", *map(str, facts["shape"])])
    yield f"| task | {facts['task']} |"
    yield f"| input | `[{shape}]`, as the data's own file has it |"
    yield f"| output | {facts['outputs']} |"
    if facts["classes"]:
        yield f"| classes | {', '.join(_cell(label) for label in facts['classes'])} |"


def _cell(text: str) -> str:
    """Return a text that stays in its cell of a table."""
    return " ".join(text.replace("|", "\\|").split())
