"""How the steps of a run add up: paid for, started, in the weights, undone by a crash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.runs.page.markup.wording import counted

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts


@dataclass(frozen=True, kw_only=True)
class StepCounts:
    """The steps of a run by what became of them."""

    paid: int
    payments: int
    steps_per_payment: int
    started: int
    kept: int
    """How many are in the weights."""
    never_run: Sequence[int]
    """The steps that were paid for with others of their block and not started."""
    undone: Sequence[int]
    """The steps whose updates a crash has taken, where the files tell which."""

    def sentences(self) -> Iterator[str]:
        """Yield what became of the steps."""
        if self.steps_per_payment > 1:
            payments = counted(self.payments, "payment")
            each = f"a payment covers {self.steps_per_payment} steps"
            yield f"{counted(self.paid, 'step')} paid for, in {payments}: {each}."
        else:
            yield f"{counted(self.paid, 'step')} paid for, each by itself."
        if self.paid == self.started == self.kept:
            yield "All of them are in the weights."
            return
        never = f" (not {_inside(self.never_run)})" if self.never_run else ""
        yield f"{self.started} started{never}, and {self.kept} are in the weights."
        if self.undone:
            yield f"{listed(self.undone)} {_was(self.undone)} undone by the crash."
        elif self.started > self.kept:
            lost = counted(self.started - self.kept, "step")
            were = "was" if self.started - self.kept == 1 else "were"
            yield f"{lost} {were} lost by a crash, or came after the last checkpoint."
        yield "Epsilon includes all that was paid for."


def step_counts(facts: PageFacts) -> StepCounts | None:
    """Return how the steps add up; None for a run without steps, or without an end."""
    plan = facts.step_plan
    statement = facts.statement
    if plan is None or facts.ledger is None or statement is None or not plan.private:
        return None
    rows = [charge for charge in facts.ledger.charges if charge.what == "step"]
    started = [charge.step for charge in rows]
    paid = set(started)
    for charge in rows:
        if charge.count:
            last = min(plan.steps, charge.step + plan.steps_per_charge - 1)
            paid.update(range(charge.step, last + 1))
    kept = statement.updates or 0
    ends = max(started, default=0)
    return StepCounts(
        paid=len(paid),
        payments=sum(charge.count for charge in rows),
        steps_per_payment=plan.steps_per_charge,
        started=len(started),
        kept=kept,
        never_run=sorted(step for step in paid.difference(started) if step < ends),
        undone=_undone(facts, started, lost=len(started) - kept),
    )


def _undone(facts: PageFacts, started: Sequence[int], *, lost: int) -> Sequence[int]:
    """Return which steps a crash has undone; nothing unless it can be told.

    A run goes on from its last checkpoint. After one crash the lost steps are the last ones before
    it; after several the files don't say how many each has taken.
    """
    statement = facts.statement
    if statement is None or statement.status != "completed" or facts.starts != 2:
        return ()
    places = [crashed_after(entry) for entry in facts.resumed]
    if len(places) != 1 or places[0] is None or lost < 1:
        return ()
    before = len(facts.plan.releases)
    return tuple(started[: max(0, places[0] - before)][-lost:])


def crashed_after(entry: object) -> int | None:
    """Return after which row of the ledger a run was resumed; None where that wasn't noted."""
    rows = entry.get("rows") if isinstance(entry, dict) else None
    return rows if isinstance(rows, int) else None


def listed(steps: Sequence[int]) -> str:
    """Write the numbers of steps."""
    if len(steps) == 1:
        return f"Step {steps[0]}"
    if len(steps) == 2:
        return f"Steps {steps[0]} and {steps[1]}"
    if steps[-1] - steps[0] == len(steps) - 1:
        return f"Steps {steps[0]} to {steps[-1]}"
    return f"Steps {', '.join(map(str, steps[:-1]))} and {steps[-1]}"


def _inside(steps: Sequence[int]) -> str:
    """Write the numbers of steps inside a sentence."""
    return f"{listed(steps)[0].lower()}{listed(steps)[1:]}"


def _was(steps: Sequence[int]) -> str:
    return "was" if len(steps) == 1 else "were"
