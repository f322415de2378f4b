"""What a run directory says about an audit of the run: its plan, and what it found.

`dppipe.audit` writes both files; statements and commands read from them what concerns the run.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.runs.directory import RunDirectory


@dataclass(frozen=True)
class AuditOfRun:
    """What a statement says about an audit of its run."""

    canaries: str
    """`reserved` or `inputs`."""
    number: int
    made_up: bool
    """Whether the run was trained on made-up records."""
    found: str | None
    """What the audit found, in a sentence; None where the run hasn't been assessed yet."""

    @property
    def kind(self) -> str | None:
        """Return why the model isn't for use; None where it is."""
        said = []
        if self.made_up:
            said.append("trained on made-up records in the shapes of the data: none was read")
        if self.canaries == "inputs":
            said.append(
                f"trained with {self.number} made-up canaries, about half of them in, all "
                "mislabelled"
            )
        return f"audit: {'; '.join(said)}; the model is not for use" if said else None


def audit_of_run(run: RunDirectory) -> AuditOfRun | None:
    """Return what is known of the audit of a run; None where it isn't audited from inside."""
    if not run.audit_plan.exists():
        return None
    plan = _read(run.audit_plan)
    found = None
    try:
        if run.audit_result.exists():
            found = finding(_read(run.audit_result))
        return AuditOfRun(plan["canaries"], int(plan["number"]), bool(plan["made_up"]), found)
    except (KeyError, TypeError, ValueError):
        raise _damaged(run.audit_plan) from None


def result_of_audit(run: RunDirectory) -> dict[str, Any] | None:
    """Return what an audit of this run found, as `audit.json` has it; None where there is none."""
    if not run.audit_plan.exists() or not run.audit_result.exists():
        return None
    return _read(run.audit_result)


def finding(result: dict[str, Any]) -> str:
    """Say in a sentence what an audit of one run found."""
    confidence = 100 * (1 - result["level"])
    verdict = "CLAIM REJECTED" if result["rejected"] else "no contradiction"
    return (
        f"epsilon at least {rounded_down(result['epsilon_lower'])} with {confidence:g} % "
        f"confidence, by {result['guesses']} guesses on {result['number']} {result['canaries']} "
        f"canaries, which could show at most {rounded_down(result['ceiling'])}; the run's own "
        f"curve has p = {shown_p(result['p_value'])}: {verdict}"
    )


def rounded_down(epsilon: float) -> str:
    """Write a lower bound with three digits, never above its value."""
    return f"{math.floor(epsilon * 1000) / 1000:.3f}"


def shown_p(p_value: float) -> str:
    """Write a p-value with two digits, never below its value."""
    if p_value >= 1:
        return "1"
    digits = 1 - math.floor(math.log10(p_value))
    return f"{math.ceil(p_value * 10**digits - 1e-9) / 10**digits:.2g}"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise _damaged(path) from None
    if not isinstance(found, dict):
        raise _damaged(path)
    return found


def _damaged(path: Path) -> UsageError:
    return UsageError(
        f"{path}: expected what an audit has written, got something else. Put the file back."
    )
