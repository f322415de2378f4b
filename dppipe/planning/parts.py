"""The components that decide privacy, and the events that they make together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.clipper_abilities import Averages, failure_delta
from dppipe.errors import PrivacyRefusal
from dppipe.planning.earlier.runs import with_earlier
from dppipe.planning.first_releases import first_releases
from dppipe.planning.planned_release import PlannedRelease
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.support import verdict
from dppipe.spec.combinations import refuse_together

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.clipping.base import Clipper
    from dppipe.noise.base import NoiseSchedule
    from dppipe.planning.earlier.runs import Earlier
    from dppipe.planning.plan import Plan
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.budget import Budget, Relation
    from dppipe.privacy.events.sequences import Steps
    from dppipe.privacy.release import Prelude, Release
    from dppipe.sampling.base import Sampler
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class PrivateParts:
    """The components that decide privacy, in the order in which a step uses them."""

    sampler: Sampler
    clipping: Clipper
    noise: NoiseSchedule
    accountant: Accountant
    budget: Budget | None
    preludes: tuple[Prelude, ...] = ()
    """What is released of the records before the first step, such as private statistics."""
    earlier: Earlier | None = None
    """The private runs that have trained the starting weights; for planning only."""

    @property
    def first_releases(self) -> tuple[Release, ...]:
        """What is released before the first step, in order."""
        return first_releases(self.preludes, self.budget)

    @property
    def before(self) -> Steps:
        """The events of what is released before the first step."""
        return [(release.event, release.count) for release in self.first_releases]

    @property
    def facts(self) -> dict[str, Any]:
        """What a plan states about the parts themselves."""
        return {
            "clipping": self.clipping.kind,
            "max_grad_norm": self.clipping.max_grad_norm,
            "averages": isinstance(self.clipping, Averages),
            "mechanism": self.noise.mechanism,
            "secure": self.noise.secure,
            "max_records_per_user": self.sampler.records_per_user,
            "earlier": self.earlier,
            "releases": tuple(PlannedRelease.of(release) for release in self.first_releases),
        }

    @property
    def unit(self) -> str:
        """Whose privacy is protected: a user's where users are drawn."""
        if self.sampler.needs_users:
            return "user"
        return "example" if self.budget is None else self.budget.unit

    def refuse_together(self, budget: Budget) -> None:
        """Refuse parts that no proof covers together.

        Validation of a spec does the same; parts that were made in Python haven't been through it.
        """
        found = verdict(
            sampler=self.sampler.kind,
            relation=budget.relation,
            accountant=self.accountant.kind,
            adaptive=self.noise.adaptive,
            mechanism=self.noise.mechanism,
        )
        if found.status == "refused":
            raise PrivacyRefusal(
                f"accountant {self.accountant.kind}: {found.why}. Take {found.instead}."
            )
        for problem in refuse_together(
            self.sampler, self.clipping, self.noise, budget=budget, preludes=self.preludes
        ):
            raise PrivacyRefusal(f"{'.'.join(map(str, problem.path))}: {problem.message}")

    def accountant_of_all(self, earlier: Earlier | None, *, relation: Relation) -> Accountant:
        """Return an accountant whose bounds include all but the steps.

        That is the releases before them, bounds that may fail, and earlier runs.
        """
        return with_earlier(
            self.accountant,
            earlier,
            before=self.before,
            failure=failure_delta(self.clipping, uses=0),
            relation=relation,
        )

    def event(self, noise_multiplier: float, *, rate: float) -> DpEvent:
        """Return the privacy event of one step: the noise schedule's, wrapped by the sampler's."""
        return self.sampler.event(self.noise.event(noise_multiplier), rate=rate)

    def committed(self, plan: Plan) -> Steps:
        """Return the events of all that a plan may charge."""
        if not isinstance(plan, StepPlan):
            raise PrivacyRefusal("plan: expected one that takes steps, got another learner's.")
        return [*self.before, *self.step_events(plan)]

    def step_events(self, plan: StepPlan) -> Steps:
        """Return the events of all steps of a plan."""
        events = []
        for noise_multiplier, rate, count in plan.charged_runs():
            if count:
                events.append((self.event(noise_multiplier, rate=rate), count))
        return events


def parts_of(spec: Spec) -> PrivateParts:
    """Return the components of a spec that decide privacy."""
    return PrivateParts(
        sampler=spec.sampler,
        clipping=spec.clipping,
        noise=spec.noise,
        accountant=spec.accountant,
        budget=None if spec.budget == "none" else spec.budget,
        preludes=spec.data.preludes,
    )
