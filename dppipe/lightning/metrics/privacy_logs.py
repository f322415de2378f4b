"""What a private fit spends, in the places where its user looks: loggers and progress bar.

A Trainer's own loggers get `privacy/...` after the first step, every `log_every_n_steps` and after
the last. The progress bar gets epsilon after each step. Only the first process shows them.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from dppipe.learners.sgd.step import PrivateStep
from dppipe.lightning.fit import Fit
from dppipe.lightning.metrics.provenance import Provenance
from dppipe.runs.showing.privacy_facts import step_facts

if TYPE_CHECKING:
    import pytorch_lightning as pl

DECIMALS = 3
"""Decimals that Lightning's bars show of a number; of one above 1 some show 3 digits alone."""


class PrivacyLogs:
    """Shows what the steps of one fit cost.

    Guarantee: epsilon in a progress bar is never below the epsilon that was charged, however the
    bar rounds it.
    """

    def __init__(self) -> None:
        self._waiting: tuple[int, dict[str, float]] | None = None
        """The last step that the loggers haven't got."""
        self._begun = False

    def step(self, trainer: pl.Trainer, fit: Fit, provenance: Provenance) -> None:
        """Show a finished step; a fit without a budget has nothing to show."""
        if not isinstance(fit.step, PrivateStep) or not trainer.is_global_zero:
            return
        taken = fit.step.taken
        facts = step_facts(fit.record.plan, taken, fit.step.shown)
        self._waiting = (taken, facts)
        every = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and (not self._begun or taken % every == 0):
            self.flush(trainer, provenance)
        self._begun = True
        # Lightning has no other way to a bar: `log` is muted, as its values are of unknown origin.
        trainer._logger_connector._progress_bar_metrics.update(bar_facts(facts))

    def flush(self, trainer: pl.Trainer, provenance: Provenance) -> None:
        """Log the last step, unless the loggers have got it."""
        if self._waiting is not None and trainer.log_every_n_steps:  # type: ignore[attr-defined]
            taken, facts = self._waiting
            provenance.log_known(facts, step=taken)
        self._waiting = None


def bar_facts(facts: dict[str, float]) -> dict[str, float]:
    """Return what a progress bar shows: what is spent, rounded up, and what is left, down."""
    return {
        "privacy/epsilon": _to_bar(facts["privacy/epsilon"], rounding=ROUND_CEILING),
        "privacy/epsilon_remaining": _to_bar(
            facts["privacy/epsilon_remaining"], rounding=ROUND_FLOOR
        ),
    }


def _to_bar(value: float, *, rounding: str) -> float:
    """Round a number so that a bar, which rounds it again, shows the same number."""
    if not math.isfinite(value):
        return value
    exact = Decimal(value)
    whole_digits = max(exact.adjusted(), 0)
    unit = Decimal(1).scaleb(whole_digits + 1 - DECIMALS if abs(value) >= 1 else -DECIMALS)
    return max(0.0, float(exact.quantize(unit, rounding=rounding)))
