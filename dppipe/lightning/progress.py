"""Progress of a run: a bar on a terminal, plain lines elsewhere. It shows public values only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dppipe.lightning.names.bases import Callback
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.printing import shown

if TYPE_CHECKING:
    import pytorch_lightning as pl

SECONDS_BETWEEN_LINES = 10.0


class ProgressBar(Callback):
    """Shows the steps taken and the epsilon spent and left, after each step."""

    def __init__(self, plan: StepPlan, *, console: Console, taken: int = 0) -> None:
        self._plan = plan
        self._console = console
        self._taken = taken
        self._last_line = time.monotonic()
        self._bar: Progress | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show an empty bar."""
        if self._console.is_terminal and trainer.is_global_zero:
            columns = (
                TextColumn("step {task.completed}/{task.total}"),
                BarColumn(),
                TextColumn("{task.fields[spent]}"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task(
                "", total=self._plan.steps, completed=self._taken, spent=self._spent()
            )
            self._bar.start()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Move the bar, or print a line now and then."""
        self._taken += 1
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._taken, spent=self._spent())
        elif trainer.is_global_zero and self._line_is_due():
            self._last_line = time.monotonic()
            line = f"step {self._taken}/{self._plan.steps}  {self._spent()}"
            self._console.print(line, highlight=False)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    on_exception = teardown  # type: ignore[assignment]

    def _line_is_due(self) -> bool:
        if self._taken in (1, self._plan.steps):
            return True
        return time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES

    def _spent(self) -> str:
        plan = self._plan
        if plan.budget_epsilon is None:
            return "not private"
        if plan.schedule == "filter":
            return f"within epsilon {plan.budget_epsilon:g} by a filter"
        epsilon = plan.epsilon_after(self._taken)
        left = max(0.0, plan.budget_epsilon - epsilon)
        return f"epsilon {shown(epsilon)} spent, {left:.3f} left"
