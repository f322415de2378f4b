"""The record of a run: what the callback writes into the run directory, from start to end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from torch import Tensor

from dppipe.budgets.identity import has_identity
from dppipe.component import Component
from dppipe.durable import sync_names
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.planning.step_plan import StepPlan
from dppipe.planning.torn_rows import torn_count
from dppipe.planning.tuning.tune_plan import TunePlan
from dppipe.runs.curves import Curves, NoCurves
from dppipe.runs.directory import RunDirectory, replacing, write_json, write_whole
from dppipe.runs.files import read_summary, refuse_finished
from dppipe.runs.ledger import Ledger
from dppipe.runs.metric_names import Holdout, validation_name
from dppipe.runs.origin import dates, remember_origin, utc_now
from dppipe.runs.outcome import FitFacts, Outcome, Stop
from dppipe.runs.page.documents import write_documents
from dppipe.runs.registration import register_run
from dppipe.runs.tensors import save_tensors

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.budgets.binding import Binding
    from dppipe.planning.release_plan import LearnerParts
    from dppipe.privacy.charges import Charge


class RunRecord:
    """Writes one run directory, from the plan to the statement."""

    def __init__(
        self, run: RunDirectory, *, plan: Plan, ledger: Ledger, covered: bool = False
    ) -> None:
        """Use `create` or `reopen`."""
        self.run = run
        self.plan = plan
        self.ledger = ledger
        self.metrics: dict[str, float] = {}
        self.validations = 0
        self.started = time.monotonic()
        self._binding: Binding | None = None
        self._covered = covered
        self._curves: Curves | NoCurves = NoCurves() if covered else Curves(run.path, plan=plan)

    @classmethod
    def create(
        cls,
        run: RunDirectory,
        *,
        plan: Plan,
        parts: PrivateParts | LearnerParts,
        config: str | None,
        data: Component | None,
        covered: bool = False,
    ) -> Self:
        """Start the record of a new run.

        That is its spec and plan, an empty ledger, and its part of a shared budget. A run that a
        row of another ledger pays for (`covered`) has no part of its own, no curves and no
        statement.
        """
        ledger: Ledger | None = None
        try:
            if config is not None:
                write_whole(run.config, config.encode())
            write_whole(run.plan, plan.to_json())
            ledger = Ledger.create(run.ledger, plan=run.plan.read_bytes())
            remember_origin(run, data=data, spec=config)
            record = cls(run, plan=plan, ledger=ledger, covered=covered)
            # The binding comes last, so that whatever is reserved has a run that can settle it.
            if not covered:
                record._binding = _bind(run, plan=plan, parts=parts, data=data)
            return record
        except BaseException as error:
            if ledger is not None:
                ledger.close()
            # Nothing was charged here. Where it isn't known whether the store has reserved, the
            # ledger is kept, to settle it.
            if isinstance(error, PrivacyRefusal | UsageError) or not has_identity(run.path):
                shutil.rmtree(run.path.resolve(), ignore_errors=True)
            raise

    @classmethod
    def reopen(
        cls,
        run: RunDirectory,
        *,
        plan: Plan,
        parts: PrivateParts | LearnerParts,
        restored: Mapping[str, Any],
        data: Component | None,
        covered: bool = False,
    ) -> Self:
        """Reopen the record of a run.

        `restored` is the callback's state in the checkpoint, empty where there is none.
        """
        seen = (restored["ledger_head"], restored["ledger_rows"]) if restored else None
        ledger = Ledger.open(run.ledger, plan=run.plan.read_bytes(), seen=seen)
        try:
            # Another process may have finished the run while this one was starting.
            refuse_finished(run)
            run.clean_up()
            remember_origin(run, data=data, going_on=going_on(run, plan, ledger))
            record = cls(run, plan=plan, ledger=ledger, covered=covered)
            if not covered:
                record._binding = _bind(run, plan=plan, parts=parts, data=data)
            counted = read_summary(run).get("validations", 0)
            record.validations = max(restored.get("validations", 0), counted)
            # After the next charge, what these files state would be below the truth.
            for stale in (run.summary, run.statement, run.statement_data, *run.pages):
                stale.unlink(missing_ok=True)
            sync_names(run.summary)
        except BaseException:
            ledger.close()
            raise
        return record

    def step(self, *, facts: Mapping[str, float], nonprivate: Mapping[str, float]) -> None:
        """Add a finished private step to the curves.

        That is its rate, bound and noise, and diagnostics where they are on.
        """
        self._curves.privacy(self.ledger.step, facts)
        self._curves.metrics(nonprivate, step=self.ledger.step)

    def release(self, charge: Charge) -> None:
        """Add a release that isn't a step to the curves: before the steps, or at its row."""
        at = 0 if self.plan.steps else self.ledger.rows
        self._curves.release(charge.epsilon, at=at)

    def facts(self, values: Mapping[str, float], *, step: int) -> None:
        """Add public facts of a step to the curves, such as its learning rate."""
        self._curves.metrics(values, step=step)

    def validation(self, values: Mapping[str, Any], *, step: int, holdout: Holdout) -> None:
        """Add the metrics of a validation, under a name that says whether they are private."""
        self.validations += 1
        found: dict[str, float] = {}
        for name, value in values.items():
            found[validation_name(name, holdout=holdout)] = float(value)
        self.metrics |= found
        self._curves.validation(found, step=step)

    def checkpoint(self, trainer: pl.Trainer) -> None:
        """Save what a resume needs."""
        with replacing(self.run.last_checkpoint) as temporary:
            trainer.save_checkpoint(temporary)

    def finish(
        self,
        weights: Mapping[str, Tensor],
        *,
        stopped: Stop | None,
        steps: int,
        start: Collection[str] = (),
        **facts: Unpack[FitFacts],
    ) -> Outcome:
        """Write the final model, where there is one, the summary and the statement.

        The run is then added to the file of finished runs.

        Args:
            weights: The trained parameters; buffers and frozen ones as they were at the start.
            stopped: What has stopped the run, where its plan hasn't.
            steps: The updates in the model.
            start: The hashes of the tensors that training started from.
            facts: What the callback has found out about the fit.
        """
        try:
            self.ledger.catch_up()
            if stopped in (None, "early"):
                save_tensors(weights, self.run.final_checkpoint)
            outcome = self._outcome(stopped=stopped, steps=steps, facts=facts)
            write_json(self.run.summary, outcome.to_data())
            if not self._covered:
                register_run(self.run, weights, start=start)
                write_documents(self.run)
                statement = self.run.statement.read_text(encoding="utf-8")
                self._curves.ending(self.metrics, statement=statement)
        finally:
            self.close()
        return outcome

    def _outcome(self, *, stopped: Stop | None, steps: int, facts: FitFacts) -> Outcome:
        charged, last_step = self._charged()
        started = dates(self.run)
        # The time that a search takes tells the number of its runs, which is secret.
        timed = not isinstance(self.plan, TunePlan)
        return Outcome(
            plan=self.plan,
            run_dir=str(self.run.path),
            stopped=stopped,
            steps=steps,
            charged=charged,
            last_step=last_step,
            metrics=self.metrics,
            validations=self.validations,
            validates=facts.get("validates", True),
            validation_records=facts.get("validation_records"),
            physical_batch_size=facts.get("physical_batch_size"),
            independence=facts.get("independence"),
            seconds=round(time.monotonic() - self.started, 3) if timed else None,
            ledger_head=self.ledger.head,
            begun=started["begun"] if timed else None,
            ended=utc_now() if timed else None,
            starts=started["starts"],
            scope=self._binding.facts() if self._binding is not None else None,
        )

    def _charged(self) -> tuple[int, int]:
        """Return the number of charges and the last charged step, or release without steps.

        A row that was cut off counts as charged, and may have begun an epoch.
        """
        ledger = self.ledger
        torn = torn_count(self.plan, ledger.rows) if ledger.torn else 0
        charged = ledger.charged + torn
        if not isinstance(self.plan, StepPlan):
            return charged, min(len(self.plan.releases), ledger.rows + bool(ledger.torn))
        if not torn:
            return charged, ledger.step
        after = self.plan.start_after(ledger.step) + 1
        return charged, min(self.plan.steps, after)

    def close(self) -> None:
        """Close the files, and settle with the shared budget what the ledger holds."""
        try:
            self._curves.close()
        finally:
            self.ledger.close()
            if self._binding is not None:
                # Its database library is slow to load, and few runs need it.
                from dppipe.budgets.binding import settle_run

                settle_run(self._binding)


def going_on(run: RunDirectory, plan: Plan, ledger: Ledger) -> dict[str, Any]:
    """Return what is noted of a start that isn't the first: when, and what came before it.

    A run that was killed has no summary. When a search went on would tell how long it took, and so
    the number of its runs, which is secret.
    """
    return {
        "at": None if isinstance(plan, TunePlan) else utc_now(),
        "rows": ledger.rows,
        "torn": bool(ledger.torn),
        "after": read_summary(run).get("status", "killed"),
    }


def _bind(
    run: RunDirectory, *, plan: Plan, parts: PrivateParts | LearnerParts, data: Component | None
) -> Binding | None:
    """Reserve the run's whole plan in its scope, where it has one."""
    if parts.budget is None or parts.budget.scope is None:
        return None
    from dppipe.budgets.binding import bind_run
    from dppipe.budgets.store import Store

    scope = parts.budget.scope
    store = Store(parts.budget.store)
    return bind_run(store, scope, run_dir=run.path, plan=plan, parts=parts, data=data)
