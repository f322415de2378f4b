"""Private steps and charges made by hand, for tests of single parts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from dppipe.data.reading.scaling import Constants
from dppipe.learners.gate import Gate
from dppipe.learners.gating.sources import NoiseSources, noise_process
from dppipe.learners.gating.upcoming import UpcomingSteps
from dppipe.learners.inputs.lost_releases import refuse_lost_releases
from dppipe.learners.inputs.model_inputs import ModelInputs
from dppipe.learners.ranks import Ranks
from dppipe.learners.sgd.step import PrivateStep
from dppipe.learners.sgd.step_noise import make_step_noise
from dppipe.lightning.fit import open_gate
from dppipe.privacy.charges import STEP_FACTS, Charge
from dppipe.privacy.release import Release
from dppipe.runs.record import RunRecord


def step_charge(**fields: Any) -> Charge:
    """Return the charge of a step, whose facts and other fields are given side by side."""
    facts = {name: fields.pop(name) for name in STEP_FACTS}
    return Charge(facts=facts, **fields)


def altered(charge: Charge, **values: Any) -> Charge:
    """Return a charge with other values of its facts or fields, whichever has the name."""
    facts = {name: values.pop(name) for name in list(values) if name in charge.facts}
    return replace(charge, **{"facts": {**charge.facts, **facts}, **values})


def release_charge(release: Release, plan: Any) -> Charge:
    """Return the charge of a release before the first step of a plan."""
    return Charge(
        what=release.what,
        event=release.event,
        relation=plan.relation,
        unit=plan.unit,
        count=release.count,
        epsilon=plan.epsilon_after(0),
        facts=release.facts,
    )


@dataclass(frozen=True)
class OneAfterAnother(Ranks):
    """Two processes after one another: the second gets what the first has said."""

    said: list[Any] = field(default_factory=list)

    def agree(self, value: Any) -> Any:
        if self.first:
            self.said.append(value)
            return value
        return self.said.pop(0)


def two_ranks() -> tuple[Ranks, Ranks]:
    """Return two processes, to be used one after the other."""
    said: list[Any] = []
    return OneAfterAnother(0, 2, said), OneAfterAnother(1, 2, said)


class GivenSources(NoiseSources):
    """Sources of noise of which a test gives some."""

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.given = given

    def get(self, purpose: Any, mechanism: str = "gaussian") -> Any:
        found = self.given.get(purpose)
        return super().get(purpose, mechanism) if found is None else found


def release_statistics(
    data: ModelInputs, parts: Any, plan: Any, ledger: Any, run: Any, *, seed: int | None = None
) -> Constants:
    """Release private statistics and scale the data, as the start of a fit does."""
    record = RunRecord(run, plan=plan, ledger=ledger)
    refuse_lost_releases(run, ledger, plan)
    gate, _ = open_gate(
        parts, parts.budget, plan, record, ranks=Ranks(), seed=seed, restored={}, resume=None
    )
    data.prepare(plan, run, gate, ranks=Ranks())
    return Constants.from_data(json.loads(run.statistics.read_bytes()))


def private_step(
    parts: Any,
    relation: Any,
    plan: Any,
    engine: Any,
    ledger: Any,
    noise: Any,
    clipper_state: Any,
    ranks: Ranks | None = None,
    *,
    count_noise: Any = None,
    diagnostics: Any = None,
) -> PrivateStep:
    """Return a private step with a gate of its own, which draws from the given sources of noise."""
    upcoming = UpcomingSteps(
        plan, parts, make_step_noise(parts, plan), taken=plan.start_after(ledger.step)
    )
    gate = Gate(
        ledger,
        upcoming,
        relation,
        plan.unit,
        sources=GivenSources(noise=noise, count=count_noise),
        ranks=ranks or Ranks(),
        process=noise_process(parts.noise),
    )
    return PrivateStep(parts, plan, engine, gate, upcoming, clipper_state, diagnostics=diagnostics)
