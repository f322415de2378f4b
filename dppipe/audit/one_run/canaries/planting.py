"""Planting canaries in a run: plan and coins before the first charge, scores after each release.

A run that is killed goes on with the same plan and coins. What its last moments released and no
score has seen counts as not seen, which costs power alone.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dppipe.audit.one_run.coins import Coins, draw_coins, read_coins
from dppipe.audit.one_run.plan import AuditPlan, Kind, read_audit_plan
from dppipe.audit.one_run.scores import Scores
from dppipe.durable import sync_names
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.runs.directory import RunDirectory, write_json

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.learners.records.reading import Indices, PhysicalBatch
    from dppipe.learners.sgd.canaries import WatchedStep
    from dppipe.planning.step_plan import StepPlan

SAVED_EVERY = 1.0
"""Scores are saved after so many seconds, and at the end."""


class PlantedCanaries:
    """The canaries of one run, of either kind."""

    kind: Kind = "reserved"

    def __init__(self, number: int, *, guesses: int, level: float, made_up: bool) -> None:
        """Plan an audit; `guesses` are made on each side."""
        self.number = number
        self.guesses = guesses
        self.level = level
        self.made_up = made_up
        self._coins: Coins | None = None
        self._scores = Scores(number)
        self._run: RunDirectory | None = None
        self._plan: StepPlan | None = None
        self._saved = time.monotonic()

    @property
    def coordinates(self) -> int:
        """How many numbers of the step's buffer are reserved."""
        return self.number if self.kind == "reserved" else 0

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which canaries are in, `[m]`."""
        if self._coins is None:
            raise UsageError("audit: expected a run that has begun, got one without coins.")
        return self._coins.present

    def begin(self, run: Path, plan: StepPlan) -> None:
        """Make plan and coins durable, or read those of a run that goes on."""
        self._run = RunDirectory(run)
        self._plan = plan
        self._scores = scores_of(plan, self.number)
        if self._run.audit_plan.exists():
            self._go_on(self._run)
            return
        if self._run.ledger.stat().st_size:
            raise PrivacyRefusal(
                f"{run}: expected an audit that was planned before the first charge, got a run "
                "without one. Start a new audit."
            )
        self._coins = draw_coins(self.number)
        self._run.audit_plan.parent.mkdir(exist_ok=True)
        self._coins.save(self._run)
        AuditPlan(
            canaries=self.kind,
            number=self.number,
            guessed_in=self.guesses,
            guessed_out=self.guesses,
            level=self.level,
            delta=plan.delta or 0.0,
            relation=str(plan.relation),
            made_up=self.made_up,
            commitment=self._coins.commitment,
        ).save(self._run)
        sync_names(self._run.audit_plan)

    def _go_on(self, run: RunDirectory) -> None:
        planned = read_audit_plan(run)
        self._coins = read_coins(run, commitment=planned.commitment, number=planned.number)
        if planned.number != self.number or planned.canaries != self.kind:
            raise PrivacyRefusal(
                f"{run.audit_plan}: expected {self.number} {self.kind} canaries, got "
                f"{planned.number} {planned.canaries}. An audit keeps its plan."
            )
        if run.audit_scores.exists():
            read_scores(run, self._scores)

    def add_(self, coordinates: Tensor, drawn: Indices, *, bound: float) -> None:
        """Add nothing: only reserved canaries have coordinates."""

    def rows(self, drawn: Indices) -> PhysicalBatch | None:
        """Return None: only input canaries have rows."""
        return None

    def watch(self, seen: WatchedStep) -> None:
        """Add a release to the scores, and save them now and then."""
        plan = self._plan
        if plan is None:
            return
        if plan.epochwise and plan.place_in_epoch(seen.step) == 0:
            self._scores.close_epoch()
        noisy, shift = self.along(seen)
        rate = plan.batch(seen.step).sample_rate
        self._scores.add(noisy, shift=shift, noise=seen.noise, rate=rate)
        if time.monotonic() - self._saved > SAVED_EVERY:
            self.end()

    def along(self, seen: WatchedStep) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the noisy sum along each canary's direction and how far it moves that, `[m]`."""
        raise NotImplementedError

    def end(self) -> None:
        """Save the scores, durably."""
        if self._run is not None and self._run.audit_plan.exists():
            write_json(self._run.audit_scores, self._scores.to_data())
            self._saved = time.monotonic()


def scores_of(plan: StepPlan, number: int) -> Scores:
    """Return empty scores for the sampler, the relation and the noise of a plan."""
    return Scores(
        number,
        epoch=plan.steps_per_epoch if plan.epochwise else 0,
        replaces=plan.relation == "replace_one",
        laplace=plan.mechanism == "laplace",
    )


def read_scores(run: RunDirectory, into: Scores) -> Scores:
    """Read the scores of a run; a file that isn't whole is refused."""
    try:
        return into.restore(json.loads(run.audit_scores.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"{run.audit_scores}: expected the scores of {into.number} canaries, got something "
            "else. Put the file back that the run wrote."
        ) from None
