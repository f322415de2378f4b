"""The privacy claim that goes with an exported model, as the run's own statement makes it.

Guarantee: epsilon and delta are stated only of a run whose statement promises something; they are
those of `privacy.json`, which has to agree with `summary.json`. Scores on private records are left
out, since a card goes where the model goes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError
from dppipe.privacy.printing import EPSILON_DIGITS, shown, shown_delta
from dppipe.privacy.rounding import round_up
from dppipe.runs.files import read_summary
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.runs.directory import RunDirectory

_COMPARED = ("status", "delta", "relation", "unit", "accountant", "certified", "ledger_head")
_NEEDED = ("name", "private", "status_of_claim", "protects", "guarantee", "not_covered", "epsilon")


@dataclass(frozen=True)
class Claim:
    """What may be said about a model's privacy."""

    statement: dict[str, Any]
    """The contents of `privacy.json`."""
    scores: dict[str, float]
    """Scores on records that were declared public."""

    @property
    def facts(self) -> dict[str, str]:
        """The claim as names and texts, for a file's metadata; without numbers if there is none."""
        said = self.statement
        facts = {
            "status": str(said["status_of_claim"]),
            "guarantee": " ".join(said["guarantee"]),
        }
        if not said["protects"]:
            return facts
        return facts | {
            "epsilon": shown(said["epsilon"]),
            "delta": shown_delta(said["delta"]),
            "unit": str(said["unit"]),
            "relation": str(said["relation"]),
            "accountant": str(said["accountant"]),
        }

    @property
    def not_covered(self) -> list[str]:
        """What the claim leaves out, in sentences; nothing where there is no claim."""
        return list(self.statement["not_covered"].values()) if self.statement["protects"] else []


def read_claim(run: RunDirectory) -> Claim:
    """Read a run's claim; refuse a statement that its summary contradicts."""
    summary = read_summary(run, "status", "epsilon", "ledger_head")
    path = run.statement.with_suffix(".json")
    try:
        statement = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        statement = None
    if not isinstance(statement, dict) or not set(_NEEDED) <= set(statement):
        raise UsageError(
            f"{path}: expected the privacy statement of the run, got none. Put the one back that "
            "the run wrote."
        )
    differing = _differing(statement, summary)
    if differing:
        raise UsageError(
            f"{path}: expected what {run.summary.name} says, got another {differing}. "
            f"`{shown_command('ledger', 'verify', run.path)}` says which of them holds."
        )
    return Claim(statement, _public_scores(summary))


def _differing(statement: dict[str, Any], summary: dict[str, Any]) -> str | None:
    """Return the first fact in which the two files differ."""
    for name in _COMPARED:
        if name in summary and statement.get(name) != summary[name]:
            return name
    summed = summary["epsilon"]
    if summed is not None:
        # The statement prints epsilon rounded up, and none that isn't finite.
        summed = round_up(summed, EPSILON_DIGITS) if math.isfinite(summed) else None
    return None if statement["epsilon"] == summed else "epsilon"


def _public_scores(summary: dict[str, Any]) -> dict[str, float]:
    """Return the scores on validation and test records that were declared public."""
    found: dict[str, float] = {}
    for block in ("metrics", "test"):
        for name, score in (summary.get(block) or {}).items():
            if name.startswith(("val/", "test/")) and isinstance(score, int | float):
                found[name] = float(score)
    return found
