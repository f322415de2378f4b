"""Progress of a run: a bar on a terminal, plain lines elsewhere. It shows public values only.

Before the first step and during validation it says so, and time goes on. A line fits into 80
columns and needs no colour.
"""

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
_BAR_WIDTH = 12


class ProgressBar(Callback):
    """Shows the steps taken, the epsilon spent and left, the speed and the time that is left."""

    def __init__(self, plan: StepPlan, *, console: Console, taken: int = 0) -> None:
        self._plan = plan
        self._console = console
        self._first = taken
        self._taken = taken
        self._last_line = time.monotonic()
        self._validating = 0.0
        self._began = 0.0
        """When the first step began; time that validation takes is added."""
        self._bar: Progress | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Show that the run is being set up: the engine is checked, batches are measured."""
        if stage != "fit" or not trainer.is_global_zero or self._bar is not None:
            return
        if not self._console.is_terminal:
            self._console.print("setting up: checks before the first step", highlight=False)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=_BAR_WIDTH),
            TextColumn("{task.fields[spent]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
        )
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._bar.add_task(
            "setting up", total=self._plan.steps, completed=self._taken, spent="", speed=""
        )
        self._bar.start()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start to measure the speed."""
        self._began = time.monotonic()
        self._show(self._steps())

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
            self._show(self._steps())
        elif trainer.is_global_zero and self._line_is_due():
            self._last_line = time.monotonic()
            self._console.print(self._line(), highlight=False, soft_wrap=True)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show that the model is being validated."""
        self._validating = time.monotonic()
        self._show("validating")

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show steps again; the speed is that of steps alone."""
        self._began += time.monotonic() - self._validating
        self._show(self._steps())

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    on_exception = teardown  # type: ignore[assignment]

    def _show(self, doing: str) -> None:
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                description=doing,
                completed=self._taken,
                spent=self._spent(),
                speed=self._speed(),
            )

    def _line_is_due(self) -> bool:
        if self._taken in (1, self._plan.steps):
            return True
        return time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES

    def _steps(self) -> str:
        return f"step {self._taken}/{self._plan.steps}"

    def _line(self) -> str:
        """Return one line of a log."""
        parts = [self._steps(), self._spent()]
        speed = self._per_second()
        if speed:
            left = max(0, self._plan.steps - self._taken) / speed
            parts += [self._speed(), f"{duration(left)} left"]
        return "  ".join(parts)

    def _per_second(self) -> float:
        """Return how many steps a second takes; 0 where it isn't known yet."""
        done = self._taken - self._first
        seconds = time.monotonic() - self._began
        return done / seconds if done > 1 and seconds > 0 else 0.0

    def _speed(self) -> str:
        speed = self._per_second()
        if not speed:
            return ""
        return f"{speed:.3g}/s" if speed < 100 else f"{speed:.0f}/s"

    def _spent(self) -> str:
        plan = self._plan
        if plan.budget_epsilon is None:
            return "not private"
        if plan.schedule == "filter":
            return f"within epsilon {plan.budget_epsilon:g} by a filter"
        epsilon = plan.epsilon_after(self._taken)
        left = max(0.0, plan.budget_epsilon - epsilon)
        return f"epsilon {shown(epsilon)} spent, {left:.3f} left"


def duration(seconds: float) -> str:
    """Return a time as people write it: 48 s, 3:05 min, 2:10 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"
