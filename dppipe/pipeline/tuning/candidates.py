"""One run of a search: a run of its own, of which nothing is seen unless it wins.

Guarantee: a run that has failed is never begun a second time, since why it failed may hang on the
records. One that was interrupted goes on from its checkpoint, or from the values that it has saved;
what it has lost stays charged in its own ledger. What it prints, warns of or logs is dropped, and
so are its errors.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.errors import RECORD_ERRORS, Interrupted
from dppipe.learners.ranks import LostProcess
from dppipe.learners.records.silenced_output import silenced
from dppipe.pipeline.load import load_network
from dppipe.pipeline.paid import Paid
from dppipe.pipeline.run import run_paid
from dppipe.pipeline.tuning.processes import other_processes
from dppipe.pipeline.tuning.scoring import score_run
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_summary

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.learners.gating.sources import NoiseSources
    from dppipe.planning.plan import Plan
    from dppipe.planning.tuning.tune_plan import PlannedScore
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class Candidate:
    """A candidate, planned: its spec, and what one run of it releases."""

    spec: Spec
    plan: Plan


@dataclass(frozen=True)
class Runner:
    """Makes the runs of a search."""

    candidates: tuple[Candidate, ...]
    paid: Paid
    """What all runs share: runs are validated by their score alone, since more looks at a private
    holdout would cost."""
    holdout: Dataset[Any]
    """The records that runs are scored on."""
    score: PlannedScore
    sources: NoiseSources
    plugins: Path | None = None
    """The folder of plugin files."""

    def score_of(self, place: Path, candidate: int) -> float | None:
        """Make a run, or go on with it, and return its score; None if it has failed.

        Args:
            place: The directory of the run.
            candidate: Which candidate it is.
        """
        try:
            with silenced():
                return self._score_of(place, self.candidates[candidate])
        except (Interrupted, LostProcess):
            raise
        except RECORD_ERRORS:
            return None

    def _score_of(self, place: Path, candidate: Candidate) -> float | None:
        run = RunDirectory(place)
        if not _is_trained(run) and not self._trained(run, candidate):
            return None
        return score_run(
            load_network(run, candidate.spec),
            self.holdout,
            candidate.spec,
            planned=self.score,
            sources=self.sources,
        )

    def _trained(self, run: RunDirectory, candidate: Candidate) -> bool:
        """Train a candidate, or go on with it; return whether that went well."""
        if _has_failed(run) or _cannot_go_on(run, candidate.plan):
            return False
        resumed = _has_begun(run)
        if not resumed and run.path.exists():
            shutil.rmtree(run.path)  # no record was read for it
        resume = run if resumed else None
        try:
            with other_processes(
                candidate.spec, candidate.plan, self.paid, resume=resume, plugins=self.plugins
            ):
                outcome = run_paid(
                    candidate.spec,
                    candidate.plan,
                    run_dir=None if resumed else run.path,
                    resume=resume,
                    paid=self.paid,
                )
        except LostProcess:
            # As after a crash of the whole run: it has not failed, and goes on later.
            run.summary.unlink(missing_ok=True)
            raise
        return outcome is not None and outcome.status in _TRAINED


_TRAINED = ("completed", "budget_exhausted")


def _is_trained(run: RunDirectory) -> bool:
    return read_summary(run).get("status") in _TRAINED and run.final_checkpoint.exists()


def _has_failed(run: RunDirectory) -> bool:
    return read_summary(run).get("status") == "failed"


def _has_begun(run: RunDirectory) -> bool:
    """Whether a row, or a part of one, was written: from there on records may have been read."""
    return run.ledger.exists() and run.ledger.stat().st_size > 0


def _cannot_go_on(run: RunDirectory, plan: Plan) -> bool:
    """Whether all steps are charged and no checkpoint is left to finish from.

    A learner without steps refuses by itself to go on where a released value is lost.
    """
    if not isinstance(plan, StepPlan) or not _has_begun(run) or run.last_checkpoint.exists():
        return False
    ledger = read_ledger(run.ledger, plan=run.plan.read_bytes())
    return plan.start_after(ledger.last_step) >= plan.steps
