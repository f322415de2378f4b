"""One run of a search: a run of its own, of which nothing is seen unless it wins.

Guarantee: a run that has failed is never begun a second time, since why it failed may hang on the
records. One that was interrupted goes on from its checkpoint; its lost steps stay charged in its
own ledger. What it prints, warns of or logs is dropped, and its errors are.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.errors import RECORD_ERRORS, Interrupted
from dppipe.learners.records.silenced_output import silenced
from dppipe.pipeline.load import load_network
from dppipe.pipeline.run import Paid, train
from dppipe.pipeline.tuning.scoring import score_run
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_summary

if TYPE_CHECKING:
    from dppipe.data.base import Splits
    from dppipe.learners.gating.sources import NoiseSources
    from dppipe.planning.step_plan import StepPlan
    from dppipe.planning.tuning.tune_plan import PlannedScore
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class Candidate:
    """A candidate, planned: its spec, and what one run of it releases."""

    spec: Spec
    plan: StepPlan


@dataclass(frozen=True)
class Runner:
    """Makes the runs of a search."""

    candidates: tuple[Candidate, ...]
    row: str
    """The hash of the row that has paid."""
    splits: Splits
    score: PlannedScore
    sources: NoiseSources

    def score_of(self, place: Path, candidate: int) -> float | None:
        """Make a run, or go on with it, and return its score; None if it has failed.

        Args:
            place: The directory of the run.
            candidate: Which candidate it is.
        """
        try:
            with silenced():
                return self._score_of(place, self.candidates[candidate])
        except Interrupted:
            raise
        except RECORD_ERRORS:
            return None

    def _score_of(self, place: Path, candidate: Candidate) -> float | None:
        run = RunDirectory(place)
        if not _is_trained(run) and not self._trained(run, candidate):
            return None
        holdout = self.splits.val
        if holdout is None:
            return None
        network = load_network(run, candidate.spec)
        return score_run(network, holdout, candidate.spec, planned=self.score, sources=self.sources)

    def _trained(self, run: RunDirectory, candidate: Candidate) -> bool:
        """Train a candidate, from its checkpoint where it has begun; say whether that went well."""
        if _has_failed(run) or _cannot_go_on(run, candidate.plan):
            return False
        resumed = _has_begun(run)
        if not resumed and run.path.exists():
            shutil.rmtree(run.path)  # no record was read for it
        outcome = train(
            candidate.spec,
            candidate.plan,
            run_dir=None if resumed else run.path,
            resume=run if resumed else None,
            callbacks=(),
            # Runs are validated by their score alone: more looks at a private holdout would cost.
            paid=Paid(self.row, self.splits._replace(val=None, test=None)),
        )
        return outcome is not None and outcome.status in _TRAINED


_TRAINED = ("completed", "budget_exhausted")


def _is_trained(run: RunDirectory) -> bool:
    return read_summary(run).get("status") in _TRAINED and run.final_checkpoint.exists()


def _has_failed(run: RunDirectory) -> bool:
    return read_summary(run).get("status") == "failed"


def _has_begun(run: RunDirectory) -> bool:
    """Whether a row, or a part of one, was written: from there on records may have been read."""
    return run.ledger.exists() and run.ledger.stat().st_size > 0


def _cannot_go_on(run: RunDirectory, plan: StepPlan) -> bool:
    """Whether all steps are charged and no checkpoint is left to finish from."""
    if not _has_begun(run) or run.last_checkpoint.exists():
        return False
    ledger = read_ledger(run.ledger, plan=run.plan.read_bytes())
    return plan.start_after(ledger.last_step) >= plan.steps
