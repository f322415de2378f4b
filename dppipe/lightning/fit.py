"""The state of a fit under way, and how its private step is put together."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils.data import DataLoader

from dppipe.clipper_abilities import first_state
from dppipe.engine import Engine
from dppipe.learners.gate import Gate
from dppipe.learners.gating.sources import NoiseSources, noise_process
from dppipe.learners.gating.upcoming import UpcomingSteps
from dppipe.learners.ranks import Ranks
from dppipe.learners.sgd.canaries import Canaries
from dppipe.learners.sgd.diagnostics import ClippingDiagnostics
from dppipe.learners.sgd.plain_step import PlainStep
from dppipe.learners.sgd.step import PrivateStep
from dppipe.learners.sgd.step_noise import FilteredNoise, StepNoise, make_step_noise
from dppipe.lightning.averages import WeightAverage
from dppipe.lightning.isolation.private_model import PlainModel, PrivateModel
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.budget import Budget
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.directory import RunDirectory
from dppipe.runs.follower import Follower
from dppipe.runs.outcome import Stop
from dppipe.runs.record import RunRecord

if TYPE_CHECKING:
    import pytorch_lightning as pl


@dataclass
class Fit:
    """A fit under way: its model, its step and what it records."""

    trainer: pl.Trainer
    model: PrivateModel | PlainModel
    record: RunRecord | Follower
    step: PrivateStep | PlainStep
    average: WeightAverage | None = None
    rehearsed: bool = False
    """Whether user code was tried on made-up rows."""
    gradient: dict[str, Tensor] = field(default_factory=dict)
    learning_rates: dict[str, float] = field(default_factory=dict)

    def place(self, batch: Any) -> Any:
        """Move a physical batch to the training device."""
        converted = self.trainer.precision_plugin.convert_input(batch)
        return self.trainer.strategy.batch_to_device(converted)

    def may_draw(self) -> bool:
        """Return whether records may be drawn: in a private run only while the gate computes."""
        return not isinstance(self.step, PrivateStep) or self.step.gate.computing

    def swap_weights(self) -> None:
        """Swap the optimizer's weights and their mean, where there is a mean."""
        if self.average is not None:
            self.average.swap()

    def facts(self) -> dict[str, Any]:
        """Return what the summary says of the model and its validation."""
        validates = bool(self.trainer.enable_validation)
        return {
            "independence": self.model.independence,
            "validates": validates,
            "validation_records": self._validation_records() if validates else None,
        }

    def _validation_records(self) -> int | None:
        """Return the number of validation records where that is public and all are validated on."""
        plan = self.record.plan
        if plan.private and plan.holdout == "private":
            return None
        loader = self.trainer.val_dataloaders
        if not isinstance(loader, DataLoader) or self.trainer.limit_val_batches != 1.0:
            return None
        dataset = loader.dataset
        return len(dataset) if isinstance(dataset, Sized) else None

    def note_step(self, updates: int) -> None:
        """Add a finished step to the mean of the weights and to the curves; `updates` counts it."""
        if self.average is not None:
            self.average.add(updates)
        if isinstance(self.step, PrivateStep):
            diagnostics = self.step.diagnostics
            found = {} if diagnostics is None else diagnostics.found
            self.record.step(facts=self.step.shown, nonprivate=found)
        self.record.facts(self.learning_rates, step=self.step.taken)

    def show(self, metrics: Mapping[str, float]) -> None:
        """Add metrics of training without a budget to the curves."""
        self.record.facts(metrics, step=self.step.taken)

    def stop(self, *, signalled: bool) -> Stop | None:
        """Return what has stopped a fit that raised no error; None if that was its plan.

        Callbacks and hooks that stop a Trainer see released values and public metrics alone. Such a
        stop ends the run for good. A run that ends by a signal, or because its Trainer is set to
        take fewer steps than the plan has, can be resumed.
        """
        if not self.step.goes_on():
            return None
        return "early" if self.trainer.should_stop and not signalled else "interrupted"

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: values and tensors, no key or state of a generator."""
        ledger = self.record.ledger
        step = self.step
        held: dict[str, Any] = {
            "ledger_head": ledger.head,
            "ledger_rows": ledger.rows,
            "validations": self.record.validations,
        }
        if isinstance(step, PrivateStep):
            held["clipper_state"] = dict(step.clipper_state)
            if isinstance(step.upcoming.noise, FilteredNoise):
                held["history"] = list(step.upcoming.noise.history)
        if self.average is not None:
            held["average"] = dict(self.average.means)
        return held


def open_gate(
    parts: PrivateParts,
    budget: Budget,
    plan: StepPlan,
    record: RunRecord | Follower,
    *,
    ranks: Ranks,
    seed: int | None,
    restored: Mapping[str, Any],
    resume: RunDirectory | None,
    covered_by: str | None = None,
) -> tuple[Gate, UpcomingSteps]:
    """Return the gate of a fit and its releases; steps go on after those that are charged."""
    ledger = record.ledger
    upcoming = UpcomingSteps(
        plan,
        parts,
        _step_noise(parts, plan, ranks=ranks, restored=restored, resume=resume),
        taken=plan.start_after(ledger.step),
    )
    gate = Gate(
        ledger,
        upcoming,
        budget.relation,
        plan.unit,
        sources=NoiseSources(seed, secure=plan.secure),
        ranks=ranks,
        process=noise_process(parts.noise),
        covered_by=covered_by,
        on_release=record.release,
    )
    return gate, upcoming


def make_private_step(
    parts: PrivateParts,
    plan: StepPlan,
    engine: Engine,
    gate: Gate,
    upcoming: UpcomingSteps,
    *,
    restored: Mapping[str, Any],
    canaries: Canaries | None = None,
) -> PrivateStep:
    """Return the private step of a fit, with what a checkpoint has restored.

    A torn row of the ledger is charged first.
    """
    step = PrivateStep(
        parts,
        plan,
        engine,
        gate,
        upcoming,
        restored.get("clipper_state") or first_state(parts.clipping, engine.groups.sizes),
        diagnostics=ClippingDiagnostics() if plan.diagnostics == "nonprivate" else None,
        canaries=canaries,
    )
    step.close_torn_charge()
    upcoming.taken = gate.ranks.agree(upcoming.taken)
    return step


def _step_noise(
    parts: PrivateParts,
    plan: StepPlan,
    *,
    ranks: Ranks,
    restored: Mapping[str, Any],
    resume: RunDirectory | None,
) -> StepNoise:
    """Return the noise of the fit's steps; on all ranks a filter starts from the charges."""
    charged: list[Any] = []
    if resume is not None and plan.schedule == "filter" and ranks.first:
        ledger = read_ledger(resume.ledger, plan=resume.plan.read_bytes())
        charged = [charge.event for charge in ledger.charges]
    history = restored.get("history", ())
    return make_step_noise(parts, plan, charged=ranks.agree(charged), history=history)
