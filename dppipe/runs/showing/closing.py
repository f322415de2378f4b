"""What is printed when a run has ended: by `dppipe run`, and by `DPCallback` in a user's own
program.
"""

from __future__ import annotations

from pathlib import Path

from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.directory import RunDirectory
from dppipe.runs.outcome import Outcome
from dppipe.runs.showing.confusion import shown_metrics
from dppipe.text_layout import short_path, shown_command, table


def _releases_made(outcome: Outcome) -> str:
    """Say how many of the planned releases were made; one may stand for many charges."""
    planned = len(outcome.plan.releases)
    if not outcome.plan.private:
        return f"{planned}, without noise"
    made, charges = 0, 0
    for release in outcome.plan.releases:
        charges += release.count
        made += charges <= outcome.charged
    charged = f", charged {outcome.charged} times" if outcome.charged > planned else ""
    return f"{made if made == planned else f'{made} of {planned}'}{charged}"


def closing_text(outcome: Outcome) -> str:
    """Say how a run ended, for a person."""
    run_dir = short_path(outcome.run_dir)
    early = ", stopped early by a callback" if outcome.stopped_early else ""
    ended = outcome.status.replace("_", " ") + early
    facts = {"run": run_dir, "ended": ended}
    if outcome.plan.steps:
        facts["steps"] = str(outcome.steps)
    else:
        facts["learner"] = outcome.plan.learner
        facts["releases"] = _releases_made(outcome)
    if outcome.epsilon is None:
        facts["privacy"] = "NOT PRIVATE"
    else:
        at = shown_delta(outcome.plan.delta or 0.0)
        facts["epsilon"] = (
            f"{shown(outcome.epsilon)} at delta {at}, {outcome.plan.relation}, "
            f"one {outcome.plan.unit}"
        )
    facts |= shown_metrics(outcome.metrics)
    if outcome.physical_batch_size is not None:
        facts["physical batch"] = f"at most {outcome.physical_batch_size} records"
    if outcome.seconds is not None:
        facts["time"] = f"{outcome.seconds:.1f} s"
    if outcome.status == "interrupted":
        facts["go on with"] = RunDirectory(Path(outcome.run_dir)).how_to_resume
    page = RunDirectory(Path(outcome.run_dir)).report
    facts["read"] = f"{run_dir}/{page.name if page.exists() else 'privacy.md'}"
    facts["curves"] = shown_command("tensorboard", run_dir)
    return table(facts)
