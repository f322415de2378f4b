"""The record of a run: what the callback writes into the run directory while a run goes on and when it ends."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor

from dppipe.budgets.identity import has_identity
from dppipe.component import Component
from dppipe.durable import sync_names
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.runs.curves import Curves
from dppipe.runs.directory import RunDirectory, replacing, write_json, write_whole
from dppipe.runs.files import read_summary, refuse_finished
from dppipe.runs.ledger import Ledger
from dppipe.runs.metric_names import Holdout, validation_name
from dppipe.runs.origin import dates, remember_origin, utc_now
from dppipe.runs.outcome import Outcome, Stop
from dppipe.runs.registration import register_run
from dppipe.runs.statement.writing import write_statement
from dppipe.runs.tensors import save_tensors

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.budgets.binding import Binding


class RunRecord:
    """Writes one run directory, from the plan to the statement."""

    def __init__(self, run: RunDirectory, *, plan: Plan, ledger: Ledger) -> None:
        """Use `create` or `reopen`."""
        self.run = run
        self.plan = plan
        self.ledger = ledger
        self.metrics: dict[str, float] = {}
        self.validations = 0
        self.started = time.monotonic()
        self._binding: Binding | None = None
        self._curves = Curves(run.path, plan=plan)

    @classmethod
    def create(
        cls,
        run: RunDirectory,
        *,
        plan: Plan,
        parts: PrivateParts,
        config: str | None,
        data: Component | None,
    ) -> Self:
        """Start the record of a new run: its spec and plan, an empty ledger, and its part of a shared budget."""
        ledger: Ledger | None = None
        try:
            if config is not None:
                write_whole(run.config, config.encode())
            write_whole(run.plan, plan.to_json())
            ledger = Ledger.create(run.ledger, plan=run.plan.read_bytes())
            remember_origin(run, data=data, spec=config)
            record = cls(run, plan=plan, ledger=ledger)
            record._binding = _bind(
                run, plan=plan, parts=parts, data=data
            )  # last: what is reserved has a run that can settle it
            return record
        except BaseException as error:
            if ledger is not None:
                ledger.close()
            # Nothing was charged here. Where it isn't known whether the store has reserved, the ledger stays, to settle it.
            if isinstance(error, PrivacyRefusal | UsageError) or not has_identity(run.path):
                shutil.rmtree(run.path.resolve(), ignore_errors=True)
            raise

    @classmethod
    def reopen(
        cls,
        run: RunDirectory,
        *,
        plan: Plan,
        parts: PrivateParts,
        restored: Mapping[str, Any],
        data: Component | None,
    ) -> Self:
        """Go on with the record of a run; `restored` is the callback's state in the checkpoint, empty where there is none."""
        seen = (restored["ledger_head"], restored["ledger_rows"]) if restored else None
        ledger = Ledger.open(run.ledger, plan=run.plan.read_bytes(), seen=seen)
        try:
            refuse_finished(
                run
            )  # another process may have gone on, to the end, while this one was starting
            run.clean_up()
            remember_origin(run, data=data)
            record = cls(run, plan=plan, ledger=ledger)
            record._binding = _bind(run, plan=plan, parts=parts, data=data)
            record.validations = max(
                restored.get("validations", 0), read_summary(run).get("validations", 0)
            )
            # What they say of an earlier end would be below the truth after the next charge.
            for told in (run.summary, run.statement, run.statement.with_suffix(".json")):
                told.unlink(missing_ok=True)
            sync_names(run.summary)
        except BaseException:
            ledger.close()
            raise
        return record

    def step(
        self, *, max_grad_norm: float, noise_multiplier: float, nonprivate: Mapping[str, float]
    ) -> None:
        """Add a finished private step to the curves: its bound and noise, and diagnostics where they are on."""
        self._curves.privacy(
            self.ledger.step, max_grad_norm=max_grad_norm, noise_multiplier=noise_multiplier
        )
        self._curves.metrics(nonprivate, step=self.ledger.step)

    def facts(self, values: Mapping[str, float], *, step: int) -> None:
        """Add public facts of a step to the curves, such as its learning rate."""
        self._curves.metrics(values, step=step)

    def validation(self, values: Mapping[str, Any], *, step: int, holdout: Holdout) -> None:
        """Add the metrics of a validation, under a name that says whether they are private."""
        self.validations += 1
        found = {
            validation_name(name, holdout=holdout): float(value) for name, value in values.items()
        }
        self.metrics |= found
        self._curves.metrics(found, step=step)

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
        physical_batch_size: int | None = None,
        independence: str | None = None,
        validates: bool = True,
        start: Collection[str] = (),
    ) -> Outcome:
        """Write the final model, where there is one, the summary and the statement, and add the run to the finished ones.

        Args:
            weights: The trained parameters, with buffers and frozen parameters as they were at the start.
            stopped: What has stopped the run, where its plan hasn't.
            steps: The updates in the model.
            physical_batch_size: How many records went through the model at once.
            independence: Why no row's gradient depends on another row.
            validates: Whether there is data to validate on.
            start: The hashes of the tensors that training started from.
        """
        try:
            self.ledger.catch_up()
            charged, last_step = self.ledger.charged, self.ledger.step
            if (
                self.ledger.torn
            ):  # a row that was cut off counts as charged, and may have begun an epoch
                charged, last_step = (
                    charged + 1,
                    min(self.plan.steps, self.plan.start_after(last_step) + 1),
                )
            if stopped in (None, "early"):
                save_tensors(weights, self.run.final_checkpoint)
            outcome = Outcome.of(
                self.plan,
                stopped=stopped,
                charged=charged,
                last_step=last_step,
                steps=steps,
                physical_batch_size=physical_batch_size,
                independence=independence,
                validates=validates,
                ended=utc_now(),
                **dates(self.run),
                run_dir=str(self.run.path),
                metrics=self.metrics,
                validations=self.validations,
                seconds=round(time.monotonic() - self.started, 3),
                ledger_head=self.ledger.head,
                scope=self._binding.facts() if self._binding is not None else None,
            )
            write_json(self.run.summary, outcome.to_data())
            register_run(self.run, weights, start=start)
            write_statement(self.run)
        finally:
            self.close()
        return outcome

    def close(self) -> None:
        """Give up the files, and settle with the shared budget what the ledger holds."""
        try:
            self._curves.close()
        finally:
            self.ledger.close()
            if self._binding is not None:
                from dppipe.budgets.binding import (
                    settle_run,
                )  # its database library is slow to load, and few runs need it

                settle_run(self._binding)


def _bind(
    run: RunDirectory, *, plan: Plan, parts: PrivateParts, data: Component | None
) -> Binding | None:
    """Reserve the run's whole plan in its scope, where it has one."""
    if parts.budget is None or parts.budget.scope is None:
        return None
    from dppipe.budgets.binding import bind_run
    from dppipe.budgets.store import Store

    return bind_run(
        Store(), parts.budget.scope, run_dir=run.path, plan=plan, parts=parts, data=data
    )
