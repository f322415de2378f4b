"""The audit of a training by many trainings: R with a canary and R without it.

The attacker sees the final model alone. A threshold on the canary's loss is chosen on the first
fifth of the trainings, which are then used no more; the others count. This is the test of
Jagielski, Ullman and Oprea (2020), against the claim's whole curve as well.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import special

from dppipe.audit.counts import TwoWorlds
from dppipe.audit.one_run.canaries.inputs import mislabelled
from dppipe.audit.one_run.canaries.single import SingleCanary
from dppipe.audit.one_run.plan import LEVEL
from dppipe.audit.one_run.suitability import require_auditable, units_of_plan
from dppipe.audit.one_run.training import without_scope
from dppipe.errors import UsageError
from dppipe.lightning.networks import network_and_loss
from dppipe.pipeline.audited import Audited
from dppipe.pipeline.run import build_module, run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.blow_up import BlowUp, blow_up_of
from dppipe.runs.directory import RunDirectory
from dppipe.runs.outcome import software_versions
from dppipe.runs.statement.audit_findings import rounded_down, shown_p
from dppipe.runs.verification.certificate import certificate_of_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.planning.step_plan import StepPlan
    from dppipe.spec.spec import Spec

LEAST_RUNS = 10
_PILOT = 5
"""One of so many trainings chooses the threshold."""
_FAR = 5.0
"""The canary's inputs are so many times as large as those of other made-up records."""
_HALVINGS = 50


@dataclass(frozen=True)
class ManyRuns:
    """What 2 R trainings say about a claim."""

    counts: TwoWorlds
    threshold: float
    level: float
    delta: float
    claimed_epsilon: float
    epsilon_lower: float
    """At least, with confidence 1 - level."""
    ceiling: float
    """The same for an attack that is always right."""
    p_value: float
    """Of the claim's whole curve."""
    normal_epsilon: float
    """ESTIMATE: epsilon if losses are normal."""

    @property
    def rejected(self) -> bool:
        """Whether the claim is contradicted."""
        return self.p_value < self.level

    @property
    def verdict(self) -> str:
        """The verdict in a sentence."""
        if self.rejected:
            return f"CLAIM REJECTED (p = {shown_p(self.p_value)})"
        most = rounded_down(self.ceiling)
        return f"no contradiction; an attack that is always right would have shown {most}"

    def to_data(self) -> dict[str, Any]:
        """Return the contents of `audit.json`."""
        data = asdict(self)
        estimate = data.pop("normal_epsilon")
        note = "ESTIMATE: needs normal losses, and bounds nothing"
        return {
            "method": "many_runs",
            "verdict": self.verdict,
            "rejected": self.rejected,
            **data,
            "estimates": {"note": note, "epsilon_of_normal_losses": estimate},
            "versions": software_versions(),
        }


def audit_by_many_runs(
    spec: Spec, *, runs: int, tell: Callable[[int, int], None] = lambda done, of: None
) -> ManyRuns:
    """Train `runs` times with a canary and `runs` times without, on made-up records.

    Guarantee: the bound holds with confidence 1 - level, as the trainings are independent and the
    threshold was fixed before the trainings that count.

    Args:
        spec: What to train.
        runs: How many trainings there are in each world; fixed beforehand.
        tell: Is told how many trainings are done.
    """
    if runs < LEAST_RUNS:
        raise UsageError(f"--runs: expected at least {LEAST_RUNS} trainings a world, got {runs}.")
    spec = without_scope(spec)
    plan = require_auditable(spec, make_plan(spec), kind="inputs", number=2)
    scores: list[list[float]] = [[], []]
    claim = claimed = None
    with tempfile.TemporaryDirectory() as folder, _own_store(Path(folder)):
        for number in range(runs):
            for world in (0, 1):
                path = Path(folder) / f"{number}-{world}"
                scores[world].append(-_loss_of_canary(spec, plan, path, present=world == 1))
                if claim is None:
                    certificate = certificate_of_run(RunDirectory.open(path))
                    claim = blow_up_of(certificate.curve)
                    claimed = certificate.epsilon(plan.delta or 0.0)
                tell(2 * number + world + 1, 2 * runs)
    if claim is None or claimed is None:
        raise UsageError("--runs: expected a training, got none.")
    without, inside = (np.array(world) for world in scores)
    return judge(without, inside, claim, claimed=claimed, delta=plan.delta or 0.0)


def judge(
    without: NDArray[np.float64],  # [R]
    inside: NDArray[np.float64],  # [R]
    claim: BlowUp,
    *,
    claimed: float,
    delta: float,
    level: float = LEVEL,
) -> ManyRuns:
    """Return what scores without and with the canary say; the first fifth chooses a threshold."""
    pilot = max(1, len(inside) // _PILOT)
    threshold = best_threshold(without[:pilot], inside[:pilot])
    counted = len(inside) - pilot
    counts = TwoWorlds(
        int((inside[pilot:] > threshold).sum()),
        counted,
        int((without[pilot:] > threshold).sum()),
        counted,
    )
    perfect = TwoWorlds(counted, counted, 0, counted)
    return ManyRuns(
        counts,
        threshold,
        level,
        delta,
        claimed,
        counts.epsilon(delta=delta, error=level),
        perfect.epsilon(delta=delta, error=level),
        p_value_of_counts(counts, claim),
        _normal_epsilon(counts, delta=delta),
    )


def best_threshold(without: NDArray[np.float64], inside: NDArray[np.float64]) -> float:
    """Return a threshold between two pilot scores that tells most of them apart."""
    values = np.unique(np.concatenate([without, inside]))
    between = (values[1:] + values[:-1]) / 2
    best = float(values[0])
    most = -1.0
    for threshold in between.tolist():
        apart = abs(float((inside > threshold).mean() - (without > threshold).mean()))
        if apart > most:
            most = apart
            best = threshold
    return best


def p_value_of_counts(counts: TwoWorlds, claim: BlowUp) -> float:
    """Return the smallest error at which the counts contradict a claim, rounded up."""
    if not counts.contradicts(claim, error=0.999):
        return 1.0
    low = -700.0
    high = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if counts.contradicts(claim, error=float(np.exp(middle))):
            high = middle
        else:
            low = middle
    return float(np.exp(high))


def _normal_epsilon(counts: TwoWorlds, *, delta: float) -> float:
    """Return epsilon as if scores were normal: mu = Phi^-1(TPR) - Phi^-1(FPR)."""
    rates = []
    for hits in (counts.hits_with, counts.hits_without):
        rates.append((hits + 0.5) / (counts.draws_with + 1))
    mu = float(special.ndtri(rates[0]) - special.ndtri(rates[1]))
    return GaussianCurve(max(mu, 0.0)).epsilon(delta)


def _loss_of_canary(spec: Spec, plan: StepPlan, path: Path, *, present: bool) -> float:
    """Train once; return the final model's loss on the canary."""
    inputs, targets = mislabelled(spec.data, number=1, after=units_of_plan(plan))
    batch = (inputs * _FAR, targets)
    canary = SingleCanary(batch, present=present, by_users=plan.unit == "user")
    run_spec(spec, plan, run_dir=path, audited=Audited(canary, made_up=True))
    network, loss = network_and_loss(build_module(spec, steps=plan.steps))
    weights = torch.load(RunDirectory(path).final_checkpoint, weights_only=True)
    network.load_state_dict(weights)
    network.eval()
    with torch.no_grad():
        found = float(loss(network, list(batch)).double().sum())
    return found if np.isfinite(found) else 1e300


@contextmanager
def _own_store(folder: Path) -> Iterator[None]:
    """Keep these runs out of the file of finished runs: no record was in them."""
    before = os.environ.get("DPPIPE_STORE")
    os.environ["DPPIPE_STORE"] = str(folder / "store.sqlite")
    try:
        yield
    finally:
        if before is None:
            del os.environ["DPPIPE_STORE"]
        else:
            os.environ["DPPIPE_STORE"] = before
