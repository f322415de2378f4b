"""The probe "influence": how far one unit moves the sum, measured without noise.

It is exact: a clipper that leaves a record, a layer or a group unbounded is found whenever one of
the canaries shows it, and correct code is never rejected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from dppipe.audit.probes.verdict import SHARES, ProbeResult

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.audit.probes.canaries import Canary
    from dppipe.audit.probes.probed import Probed
    from dppipe.audit.probes.step_claim import StepClaim

TOLERANCE = 1e-5
"""How far rounding may move a measured influence above the bound, relative to it."""
_OTHERS = 16
"""Placeholders beside the canary: a bound on the mean of a batch shows only among others."""
_MOST_KEPT = 20_000_000
"""How many numbers of canaries' contributions are kept, to find the pair that is farthest apart."""
_COUNT_BOUND = 0.5
"""How far one unit may move each count of an adaptive clipper."""


@dataclass(frozen=True)
class Influence:
    """What was measured, and the two worlds that noise hides least."""

    result: ProbeResult
    without: Canary | None
    """What stands in the canary's place in world 0; None for nothing."""
    with_: Canary


@dataclass(frozen=True)
class _Pair:
    """Two worlds: how far apart they are by the bounds, and by the noise."""

    without: Canary | None
    with_: Canary
    excess: float
    """Over the bound; the largest of the whole sum, of each group and of each count."""
    shift: float
    """In units of the noise."""

    @property
    def name(self) -> str:
        if self.without is None:
            return self.with_.name
        return f"{self.without.name} replaced by {self.with_.name}"


def measure_influence(subject: Probed) -> Influence:
    """Measure how far each canary moves the sum; under `replace_one`, each pair of canaries.

    Guarantee: a result above the bound is a counterexample to the sensitivity that noise is scaled
    to, for the model at these weights.
    """
    canaries = subject.canaries()
    records, step = subject.full(others=_OTHERS, steps=len(canaries) + 1, silent=True)
    claim = step.claim()
    replaced = claim.relation == "replace_one"
    records.hold(None)
    kept: list[tuple[Canary | None, Tensor]] = [] if replaced else [(None, step.draw())]
    pairs: list[_Pair] = []
    for canary in canaries:
        records.hold(canary.row)
        total = step.draw()
        for other, against in kept:
            moved = total - against
            pairs.append(_Pair(other, canary, _excess(claim, moved), _shift(claim, moved)))
        if replaced and len(kept) * len(total) < _MOST_KEPT:
            kept.append((canary, total))
    worst = max(pairs, key=lambda pair: _ranked(pair.excess))
    usable = [pair for pair in pairs if math.isfinite(pair.shift)]
    strongest = max(usable, key=lambda pair: pair.shift)
    return Influence(_result(claim, worst, pairs), strongest.without, strongest.with_)


def _ranked(excess: float) -> float:
    return math.inf if math.isnan(excess) else excess


def _shift(claim: StepClaim, moved: Tensor) -> float:
    return float(torch.linalg.vector_norm(claim.scaled(moved), claim.order))


def _excess(claim: StepClaim, moved: Tensor) -> float:
    """Return the largest of: the whole sum, each group, and each count, over its bound."""
    gradient = moved[: claim.width]
    shares = [float(torch.linalg.vector_norm(gradient, claim.order)) / claim.sensitivity]
    pieces = claim.pieces()
    for group in range(len(claim.bounds)):
        members = [gradient[pieces[name]] for name, own in claim.groups.items() if own == group]
        norm = float(torch.linalg.vector_norm(torch.cat(members), claim.order))
        shares.append(norm / claim.group_bound(group))
    if claim.counts:
        twice = 2 if claim.relation == "replace_one" else 1
        shares.append(float(moved[claim.width :].abs().max()) / (_COUNT_BOUND * twice))
    tensor = torch.tensor(shares)
    return float("nan") if bool(tensor.isnan().any()) else float(tensor.max())


def _result(claim: StepClaim, worst: _Pair, pairs: list[_Pair]) -> ProbeResult:
    broken = not worst.excess <= 1 + TOLERANCE
    measured = {pair.name: pair.excess for pair in pairs}
    unit = "unit replaced" if claim.relation == "replace_one" else "unit"
    tried = f"{len(pairs)} {'canaries' if worst.without is None else 'pairs of canaries'}"
    return ProbeResult(
        probe="influence",
        claimed=f"one {unit} moves the sum by at most {claim.sensitivity:.6g}",
        measured=f"{worst.excess:.5f} of a bound, by {worst.name}; {tried}",
        p_value=0.0 if broken else 1.0,
        level=SHARES["influence"],
        fault="a canary that moves a sum by more than its bound",
        power=1.0,
        ratio=worst.excess,
        numbers={
            "sensitivity": claim.sensitivity,
            "bounds": list(claim.bounds),
            "tolerance": TOLERANCE,
            "share_of_bound": measured,
        },
    )
