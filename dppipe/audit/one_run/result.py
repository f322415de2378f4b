"""What an audit of one run found, worked out from the files of the run alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dppipe.audit.one_run.black_box import read_black_box
from dppipe.audit.one_run.canaries.planting import read_scores, scores_of
from dppipe.audit.one_run.ceiling import ceiling, gaussian_family_ceiling
from dppipe.audit.one_run.coins import read_coins
from dppipe.audit.one_run.curve_test import gaussian_family_epsilon, p_value_of_claim
from dppipe.audit.one_run.epsilon_delta_bound import epsilon_lower_bound
from dppipe.audit.one_run.estimates import independent_epsilon, normal_epsilon
from dppipe.audit.one_run.guessing import count_right
from dppipe.audit.one_run.plan import AuditPlan, read_audit_plan
from dppipe.audit.one_run.power import SEED, TRIALS, chance_to_reject
from dppipe.errors import UsageError
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.tradeoff.blow_up import blow_up_of
from dppipe.runs.directory import RunDirectory, write_json
from dppipe.runs.files import read_plan, read_summary
from dppipe.runs.outcome import software_versions
from dppipe.runs.page.documents import write_documents
from dppipe.runs.statement.audit_findings import audit_of_run, rounded_down, shown_p
from dppipe.runs.statement.writing import STATED
from dppipe.runs.verification.certificate import certificate_of_run
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dppipe.audit.one_run.curve_test import Inverse
    from dppipe.audit.one_run.guesses import Guesses

NOISE_FACTOR = 0.5
"""The fault whose chance to be found is stated: half of the noise."""


@dataclass(frozen=True)
class Bounds:
    """What one score of the canaries contradicts."""

    right: int
    epsilon_lower: float
    """The largest epsilon that is contradicted, at the claim's delta."""
    ceiling: float
    """The same if all guesses had been right: the most that this audit could show."""
    gaussian_family: float
    """A bound if the training's curve is a Gaussian mechanism's."""
    gaussian_family_ceiling: float
    p_value: float
    """Of the run's own curve: the verdict."""


@dataclass(frozen=True)
class Result:
    """The result of an audit of one run."""

    plan: AuditPlan
    bounds: Bounds
    black_box: Bounds | None
    """The same by the final model's losses alone, where canaries are inputs."""
    claimed_epsilon: float
    accountant: str
    chance: float | None
    """ESTIMATE: the chance to have found half of the noise; None where it can't be simulated."""
    normal_epsilon: float
    """ESTIMATE: epsilon if scores are normal."""
    independent_epsilon: float
    """ESTIMATE: a bound if scores are independent."""
    steps_seen: int
    steps_charged: int

    @property
    def rejected(self) -> bool:
        """Whether the claim is contradicted at the plan's level."""
        return self.bounds.p_value < self.plan.level

    @property
    def verdict(self) -> str:
        """The verdict in a sentence. An audit never says that something is private."""
        if self.rejected:
            return f"CLAIM REJECTED (p = {shown_p(self.bounds.p_value)})"
        if self.chance is None:
            most = f"this audit could show at most epsilon {rounded_down(self.bounds.ceiling)}"
            return f"no contradiction; {most}"
        return (
            "no contradiction; would have found noise 2x too small with probability "
            f"{self.chance:.2f} (ESTIMATE)"
        )

    def to_data(self) -> dict[str, Any]:
        """Return the contents of `audit.json`: enough to work every bound out again."""
        plan = self.plan
        return {
            "method": "one_run",
            "verdict": self.verdict,
            "rejected": self.rejected,
            "canaries": plan.canaries,
            "number": plan.number,
            "guessed_in": plan.guessed_in,
            "guessed_out": plan.guessed_out,
            "guesses": plan.guesses,
            "level": plan.level,
            "delta": plan.delta,
            "relation": plan.relation,
            "made_up": plan.made_up,
            **asdict(self.bounds),
            "black_box": None if self.black_box is None else asdict(self.black_box),
            "claimed_epsilon": self.claimed_epsilon,
            "accountant": self.accountant,
            "steps_seen": self.steps_seen,
            "steps_charged": self.steps_charged,
            "estimates": {
                "note": "ESTIMATE: these need a model of the scores, and bound nothing",
                "epsilon_of_normal_scores": self.normal_epsilon,
                "epsilon_of_independent_scores": self.independent_epsilon,
                "chance_to_find_half_the_noise": self.chance,
                "trials": TRIALS,
                "seed": SEED,
            },
            "versions": software_versions(),
        }


def assess(run: RunDirectory) -> Result:
    """Work out what the audit of a finished run found; write `audit.json` and the statement."""
    result = result_of(run)
    write_json(run.audit_result, result.to_data())
    audit = audit_of_run(run)
    if audit is not None and audit.kind is not None:
        write_json(run.summary, read_summary(run, *STATED) | {"kind": "audit"})
    write_documents(run)
    return result


def result_of(run: RunDirectory) -> Result:
    """Return what the audit of a finished run found; nothing is written."""
    plan = read_plan(run)
    _refuse_unfinished(run)
    if not isinstance(plan, StepPlan):
        raise UsageError(f"{run.path}: expected a run that takes steps, got another.")
    audit = read_audit_plan(run)
    present = read_coins(run, commitment=audit.commitment, number=audit.number).present
    scores = read_scores(run, scores_of(plan, audit.number))
    certificate = certificate_of_run(run)
    polygon = blow_up_of(certificate.curve)

    def inverse(y: float) -> float:
        return float(polygon.inverse(y))

    losses = read_black_box(run, number=audit.number) if audit.canaries == "inputs" else None
    simulates = audit.canaries == "reserved" and plan.schedule == "committed"
    chance = None
    if simulates:
        chance = chance_to_reject(audit, plan, inverse, noise_factor=NOISE_FACTOR)
    return Result(
        audit,
        bounds_of(audit, scores.total, present, inverse),
        None if losses is None else bounds_of(audit, losses, present, inverse),
        certificate.epsilon(audit.delta),
        certificate.accountant,
        chance,
        normal_epsilon(scores.total, present, delta=audit.delta),
        independent_epsilon(scores.total, present, delta=audit.delta, level=audit.level),
        scores.steps,
        _charged_steps(run),
    )


def bounds_of(
    plan: AuditPlan,
    scores: NDArray[np.float64],  # [m]
    present: NDArray[np.bool_],  # [m]
    inverse: Inverse,
) -> Bounds:
    """Return the bounds that the guesses by some scores imply."""
    guesses: Guesses = count_right(plan, scores, present)
    delta = plan.delta
    level = plan.level
    return Bounds(
        guesses.right,
        epsilon_lower_bound(guesses, delta=delta, level=level),
        ceiling(guesses, delta=delta, level=level),
        gaussian_family_epsilon(guesses, delta=delta, level=level),
        gaussian_family_ceiling(guesses, delta=delta, level=level),
        p_value_of_claim(guesses, inverse),
    )


def _charged_steps(run: RunDirectory) -> int:
    rows = read_ledger(run.ledger, plan=run.plan.read_bytes())
    return sum(1 for charge in rows.charges if charge.what == "step")


def _refuse_unfinished(run: RunDirectory) -> None:
    status = read_summary(run).get("status")
    if status not in ("completed", "budget_exhausted"):
        raise UsageError(
            f"{run.path}: expected a finished run, got one that is not: coins are secret until "
            f"it ends. Go on with: {shown_command('resume', run.path)}"
        )
