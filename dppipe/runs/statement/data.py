"""A privacy statement as plain data: what `privacy.json` holds."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from dppipe.privacy.printing import EPSILON_DIGITS
from dppipe.privacy.rounding import round_up
from dppipe.runs.statement.assumptions import assumptions
from dppipe.runs.statement.comparisons import comparison
from dppipe.runs.statement.exclusions import not_covered
from dppipe.runs.statement.noise_levels import noise_level
from dppipe.runs.statement.releases import released
from dppipe.runs.statement.statement import Statement


def statement_data(statement: Statement) -> dict[str, Any]:
    """Return the plain data of `privacy.json`."""
    return asdict(statement) | {
        "epsilon": _printed(statement.epsilon),
        "epsilon_spent": _printed(statement.epsilon_spent),
        "status_of_claim": statement.status_of_claim,
        "released": list(released(statement)),
        "protects": statement.protects,
        "guarantee": list(statement.guarantee()),
        "comparison": comparison(statement),
        "accountant_version": statement.versions.get("dppipe"),
        "noise_level": noise_level(mechanism=statement.mechanism, secure=statement.secure),
        "seeded": statement.reproducible,
        "evaluation_looks": statement.validation_looks + statement.test_looks,
        "assumptions": list(assumptions(statement)),
        "not_covered": not_covered(statement),
    }


def _printed(epsilon: float | None) -> float | None:
    if epsilon is None or not math.isfinite(epsilon):
        return None
    return round_up(epsilon, EPSILON_DIGITS)
