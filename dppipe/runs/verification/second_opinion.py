"""A second opinion on a run's epsilon: its ledger's charges, composed by dp_accounting's PLD."""

from __future__ import annotations

from pathlib import Path

from dppipe.planning.earlier.runs import with_earlier
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.charges import charged_steps
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.second_opinion import SecondOpinion, second_opinion
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan
from dppipe.runs.verify import Verification


def ledger_opinion(run_dir: Path | str, found: Verification) -> SecondOpinion:
    """Return dp_accounting's epsilon of the charges that were verified, at the same delta."""
    if not found.intact:
        return SecondOpinion(None, None, "the ledger is not whole")
    run = RunDirectory.open(Path(run_dir))
    plan = read_plan(run)
    delta = found.delta
    charges = read_ledger(run.ledger, plan=run.plan.read_bytes()).charges
    if not charges or delta is None:
        return SecondOpinion(None, None, "nothing was charged")
    if plan.schedule == "filter":
        why = "its noise followed released values, where a composed curve proves nothing"
        return SecondOpinion(None, None, why)
    relation = charges[-1].relation

    def epsilon_by(accountant: Accountant) -> float:
        counting = with_earlier(
            accountant, plan.earlier, before=(), failure=plan.failure_delta, relation=relation
        )
        return counting.compose(charged_steps(charges), relation=relation).epsilon(delta)

    return second_opinion(epsilon_by)
