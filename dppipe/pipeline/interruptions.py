"""An interrupted fit ends with `Interrupted`, in whichever form the signal leaves a Trainer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dppipe.errors import Interrupted
from dppipe.lightning.names.namespaces import exceptions
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.lightning.callback import DPCallback
    from dppipe.planning.step_plan import StepPlan
    from dppipe.runs.outcome import Outcome


@contextmanager
def naming_interruptions(private: DPCallback, plan: StepPlan) -> Iterator[None]:
    """Turn the errors with which an interrupted fit ends into `Interrupted`."""
    try:
        yield
    except SystemExit as end:
        # A Trainer ends like this after a signal that nobody waits for: a second Ctrl-C, or one
        # before the first step.
        terminated = isinstance(end, exceptions("SIGTERMException"))
        if terminated or isinstance(end.__context__, KeyboardInterrupt):
            number = signal.SIGTERM if terminated else signal.SIGINT
            raise interrupted(private.outcome, plan, exit_code=128 + number) from None
        raise
    except RuntimeError as error:
        # A second Ctrl-C inside torch comes out as an error of torch's own. One that came before a
        # Trainer had made its loaders comes out as an error of the Trainer's tear-down.
        during_interrupt = isinstance(error.__context__, KeyboardInterrupt)
        if private.signals.received is None and not during_interrupt:
            raise
        raise interrupted(private.outcome, plan, exit_code=private.signals.exit_code) from None


def interrupted(outcome: Outcome | None, plan: StepPlan, *, exit_code: int) -> Interrupted:
    """Return the error that says where a run was stopped, and how to resume it."""
    if outcome is None:
        return Interrupted(
            f"{plan.name}: interrupted. If its run directory contains a ledger: dppipe resume",
            exit_code=exit_code,
        )
    place = f"{outcome.run_dir}: stopped after step {outcome.steps} of {plan.steps}"
    command = shown_command("resume", outcome.run_dir)
    return Interrupted(f"{place}. Go on with: {command}", exit_code=exit_code)
