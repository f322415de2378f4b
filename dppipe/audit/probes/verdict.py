"""What probes have found, and the verdict of an audit: a rejected claim, or no contradiction.

An audit never says that something is private: a fault that no probe looks for stays unseen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LEVEL = 0.01
"""How often an audit of correct code rejects its claim, at most."""
SHARES = {"influence": 0.0, "noise": 0.005, "fit": 0.002, "sampler": 0.001, "transcript": 0.002}
"""The part of the level that each probe of a noised sum may use. Influence is exact."""
LEAST_P = 1e-300
"""The smallest p-value that is told apart from 0."""
EXIT_REJECTED = 4
"""The exit code of a command whose audit has rejected the claim."""


@dataclass(frozen=True)
class ProbeResult:
    """What one probe claims, has measured, and would have found."""

    probe: str
    claimed: str
    measured: str
    p_value: float
    """How probable so strong a contradiction is, at most, if the claim holds; 0 if impossible."""
    level: float
    """The probe's share of the audit's level."""
    fault: str
    """The fault whose probability of being found is stated."""
    power: float
    """The probability of finding that fault; 1 where it can't be missed."""
    ratio: float | None = None
    """What was measured, at least, over what is claimed; above 1 it contradicts the claim."""
    ceiling: float | None = None
    """The largest ratio that an experiment of this size could show."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """All counts and settings, enough to work the result out again."""
    notes: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether the claim is contradicted at the probe's level."""
        return self.p_value <= self.level

    @property
    def adjusted(self) -> float:
        """The p-value within the whole audit: multiplied by one over the probe's share."""
        if self.p_value == 0:
            return 0.0
        return min(1.0, self.p_value * LEVEL / self.level) if self.level else 1.0


@dataclass(frozen=True)
class AuditReport:
    """An audit: its subject, its probes and how long it took."""

    name: str
    learner: str
    relation: str
    unit: str
    release: str
    """What is tested, in words."""
    probes: tuple[ProbeResult, ...]
    notes: tuple[str, ...] = ()
    """What no probe has looked at."""
    seconds: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rejected(self) -> bool:
        """Whether any probe contradicts the claim."""
        return any(probe.rejected for probe in self.probes)

    @property
    def p_value(self) -> float:
        """The p-value of the whole audit."""
        return min((probe.adjusted for probe in self.probes), default=1.0)

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        if not self.probes:
            return "no probe for this learner: not audited"
        if self.rejected:
            found = [probe.probe for probe in self.probes if probe.rejected]
            return f"CLAIM REJECTED (p {_relation(shown_p(self.p_value))}) by {_listed(found)}"
        fault, power = self._stated()
        return f"no contradiction; would have found {fault} with probability {shown_power(power)}"

    def _stated(self) -> tuple[str, float]:
        """Return the fault of the verdict, and how often the audit finds it at least.

        Noise that is too small everywhere is found by `noise` or by `fit`, whichever sees more:
        the power of `fit` is that for its smallest tensor alone, which is less.
        """
        by_name = {probe.probe: probe for probe in self.probes}
        stated = by_name.get("noise") or by_name.get("two worlds") or self.probes[0]
        power = stated.power
        if stated.probe == "noise" and "fit" in by_name:
            power = max(power, by_name["fit"].power)
        return stated.fault, power


def shown_p(p_value: float) -> str:
    """Return a p-value in few digits."""
    if p_value == 0:
        return "0, exact"
    if p_value < 1e-15:
        return "< 1e-15"
    return f"{p_value:.1e}" if p_value < 1e-3 else f"{p_value:.2g}"


def _relation(shown: str) -> str:
    return shown if shown.startswith("<") else f"= {shown}"


def shown_power(power: float) -> str:
    """Return a probability of detection, rounded down: 1.00 is never said of a simulation."""
    return f"{min(int(power * 100), 99) / 100:.2f}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
