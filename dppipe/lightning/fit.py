"""What there is while a fit goes on, and how its private step is put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dppipe.clipper_abilities import first_state
from dppipe.engine import Engine
from dppipe.learners.diagnostics import ClippingDiagnostics
from dppipe.learners.pace import FilteredPace, Pace, make_pace
from dppipe.learners.ranks import Ranks
from dppipe.learners.step import PlainStep, PrivateStep
from dppipe.lightning.averages import WeightAverage
from dppipe.lightning.isolation.private_model import PlainModel, PrivateModel
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.privacy.budget import Budget
from dppipe.privacy.charges import read_ledger
from dppipe.randomness.gaussian import GaussianStream, NoiseSource
from dppipe.randomness.laplace import LaplaceStream
from dppipe.randomness.streams import Purpose, stream_key
from dppipe.runs.directory import RunDirectory
from dppipe.runs.follower import Follower
from dppipe.runs.outcome import Stop
from dppipe.runs.record import RunRecord

if TYPE_CHECKING:
    import pytorch_lightning as pl

_STREAMS: tuple[Purpose, ...] = ("noise", "count")


@dataclass
class Fit:
    """What there is while a fit goes on."""

    trainer: pl.Trainer
    model: PrivateModel | PlainModel
    record: RunRecord | Follower
    step: PrivateStep | PlainStep
    average: WeightAverage | None = None
    rehearsed: bool = False
    """Whether user code was tried on made-up rows."""
    gradient: dict[str, Tensor] = field(default_factory=dict)
    learning_rates: dict[str, float] = field(default_factory=dict)

    def place(self, piece: Any) -> Any:
        """Move one physical piece to the training device."""
        return self.trainer.strategy.batch_to_device(
            self.trainer.precision_plugin.convert_input(piece)
        )

    def swap_weights(self) -> None:
        """Let the optimizer's weights and their mean change places, where there is a mean."""
        if self.average is not None:
            self.average.swap()

    def facts(self) -> dict[str, Any]:
        """Return what the summary says of the model and its validation."""
        validates = bool(self.trainer.enable_validation)
        return {"independence": self.model.independence, "validates": validates}

    def note_step(self, updates: int) -> None:
        """Add a finished step to the mean of the weights and to the curves; `updates` counts it."""
        if self.average is not None:
            self.average.add(updates)
        if isinstance(self.step, PrivateStep):
            shown = self.step.diagnostics.found if self.step.diagnostics else {}
            bound, noise = self.step.max_grad_norm, self.step.noise_multiplier
            self.record.step(max_grad_norm=bound, noise_multiplier=noise, nonprivate=shown)
        self.record.facts(self.learning_rates, step=self.step.taken)

    def show(self, metrics: Mapping[str, float]) -> None:
        """Add metrics of training without a budget to the curves."""
        self.record.facts(metrics, step=self.step.taken)

    def stop(self, *, signalled: bool) -> Stop | None:
        """Return what has stopped a fit that raised no error; None if that was its plan.

        Callbacks and hooks that stop a Trainer see released values and public metrics alone. Such a
        stop ends the run for good; one by a signal, or by a Trainer that was told to take fewer
        steps than the plan has, leaves it to be resumed.
        """
        if not self.step.goes_on():
            return None
        return "early" if self.trainer.should_stop and not signalled else "interrupted"

    def state(self) -> dict[str, Any]:
        """Give what a checkpoint holds: plain values and tensors, and no key or state of a generator."""
        ledger, step = self.record.ledger, self.step
        held: dict[str, Any] = {
            "ledger_head": ledger.head,
            "ledger_rows": ledger.rows,
            "validations": self.record.validations,
        }
        if isinstance(step, PrivateStep):
            held["clipper_state"] = dict(step.clipper_state)
            if isinstance(step.pace, FilteredPace):
                held["history"] = list(step.pace.history)
        return held if self.average is None else held | {"average": dict(self.average.means)}


def make_private_step(
    parts: PrivateParts,
    budget: Budget,
    plan: Plan,
    engine: Engine,
    ledger: Any,
    *,
    ranks: Ranks,
    seed: int | None,
    restored: Mapping[str, Any],
    resume: RunDirectory | None,
) -> PrivateStep:
    """Put the private step of a fit together, with what a checkpoint has restored; a torn row is charged first."""
    gaussian, count_noise = (
        GaussianStream(stream_key(use, seed=seed), secure=plan.secure) for use in _STREAMS
    )
    noise: NoiseSource = (
        LaplaceStream(stream_key("noise", seed=seed)) if plan.mechanism == "laplace" else gaussian
    )
    state = restored.get("clipper_state") or first_state(parts.clipping, engine.groups.sizes)
    pace = _pace(parts, plan, ranks=ranks, restored=restored, resume=resume)
    step = PrivateStep(parts, budget.relation, plan, engine, ledger, noise, state, ranks, pace=pace)
    step.count_noise = count_noise
    step.diagnostics = ClippingDiagnostics() if plan.diagnostics == "nonprivate" else None
    step.close_torn_charge()
    step.taken = ranks.agree(step.taken)
    return step


def _pace(
    parts: PrivateParts,
    plan: Plan,
    *,
    ranks: Ranks,
    restored: Mapping[str, Any],
    resume: RunDirectory | None,
) -> Pace:
    """Give what says each step's noise; a filter takes up what the ledger has charged, on every rank alike."""
    charged: list[Any] = []
    if resume is not None and plan.schedule == "filter" and ranks.first:
        charged = [
            charge.event
            for charge in read_ledger(resume.ledger, plan=resume.plan.read_bytes()).charges
        ]
    return make_pace(parts, plan, charged=ranks.agree(charged), history=restored.get("history", ()))
