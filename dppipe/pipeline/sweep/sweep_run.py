"""One run of a sweep before it starts: what the grid sets, its spec and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep, before it starts."""

    options: Mapping[str, Any]
    """What the grid sets."""
    spec: Spec
    plan: Plan

    @property
    def label(self) -> str:
        """What tells the run from the others, for people."""
        facts = dict(self.options) | {"seed": self.spec.seed}
        return " ".join(f"{name}={value}" for name, value in facts.items())
