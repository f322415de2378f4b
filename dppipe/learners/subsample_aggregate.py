"""Subsample and aggregate: an ordinary estimate on each of k blocks, and a noisy average of them.

Nissim, Raskhodnikova and Smith 2007; Smith 2011. The estimator is a black box: nothing about it is
proven or needed. Read next: `blocks/assignment.py`, then `aggregation/estimates.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import field_validator

from dppipe.component import AutoFloat, AutoInt, Field
from dppipe.errors import UsageError
from dppipe.learners.aggregation.inner_options import Inner, LinearInner
from dppipe.learners.base import Learner, PublicFacts, Release
from dppipe.learners.linear.base import last_layer_problems

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dppipe.learners.aggregation.estimates import Estimator
    from dppipe.learners.gate import Gate
    from dppipe.learners.gating.bounded import Bounded
    from dppipe.learners.job import Job
    from dppipe.models.base import Model
    from dppipe.privacy.release import Fact


class SubsampleAggregate(Learner, kind="subsample_aggregate"):
    """Trains on each of k blocks, and releases the mean or the medians of the weights.

    Guarantee: one unit is in one of k blocks, by a public rule (`blocks/assignment.py`). Whatever
    it does there, it moves one estimate, and both ends of that move lie in a public ball of radius
    R. So the sum of the estimates moves by at most 2R, also when the unit is zeroed out: that is
    already doubled. k is a constant, and a block that fails counts as the origin, so the mean moves
    by at most 2R/k. A replaced unit stays in its block and moves the mean by at most 2R/k too, not
    by twice that. Accountants double the sensitivity of a presence under `replace_one`, so the one
    that is stated there is R/k. Medians: `dppipe/randomness/SELECTION.md`, lemmas 6 to 9.
    """

    blocks: int = Field(
        ge=2, le=10**6, examples=[4], description="How many blocks the records are put in."
    )
    radius: float = Field(
        ge=1e-9,
        le=1e9,
        examples=[2.0],
        description="How far an estimate may be from the origin: in norm for a mean, in each "
        "coordinate for medians. A public constant, never taken from records.",
    )
    aggregate: Literal["mean", "median"] = Field(
        "mean", description="Release the mean with noise, or a noisy median of each coordinate."
    )
    inner: Inner = Field(
        examples=[{"kind": "ridge", "regularization": 1.0}],
        description="What is estimated on each block.",
    )
    coordinates: AutoInt = Field(
        "auto",
        gt=0,
        description="The number of weights, each of which a median pays for; auto: those of a "
        "linear model of the inputs.",
    )
    noise_multiplier: AutoFloat = Field(
        "auto",
        gt=0,
        description="The noise relative to the sensitivity; for medians 1 over the epsilon of "
        "each. auto: by the budget.",
    )

    takes: ClassVar[frozenset[str]] = frozenset({"model"})

    @field_validator("radius", mode="before")
    @classmethod
    def _is_constant(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(
                f"expected a public constant, such as 2.0, got {value!r}. A radius that follows "
                "from records would be a release of its own: state how large weights may be."
            )
        return value

    def problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield more blocks than records, a loss that the task doesn't have, unknown widths."""
        if facts.records is not None and self.blocks > facts.records:
            yield (
                ("learner", "blocks"),
                f"expected at most {facts.records}, one block for each {facts.unit}, got "
                f"{self.blocks}. Take fewer.",
            )
        if self.inner.kind == "logistic_ridge" and facts.task == "regression":
            yield (
                ("learner", "inner", "kind"),
                "expected ridge or sgd for a regression, got logistic_ridge. Take one of them.",
            )
        if self.aggregate == "mean" and self.coordinates != "auto":
            yield (
                ("learner", "coordinates"),
                "expected no number with aggregate: mean, whose cost doesn't depend on it, got "
                f"{self.coordinates}. Leave it out.",
            )
        if self.aggregate == "median" and self.inner.kind == "sgd" and self.coordinates == "auto":
            yield (
                ("learner", "coordinates"),
                "expected the number of weights of the network, since each median is paid for, "
                "got auto. State it: dppipe run says how many there are.",
            )

    def model_problems(self, model: Model) -> Iterator[tuple[str, str]]:
        """Yield what a linear estimator can't train."""
        if isinstance(self.inner, LinearInner):
            yield from last_layer_problems(self.kind, model)

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return the one release: the weights."""
        from dppipe.privacy.events.mechanisms import exponential, gaussian

        shown: dict[str, Fact] = {"noise_multiplier": scale}
        shown |= {"blocks": self.blocks, "radius": self.radius, "inner": self.inner.kind}
        shown |= self._advice(facts)
        if self.aggregate == "mean":
            shown["noise_std"] = scale * self.sensitivity(facts)
            return [Release(what="weights", event=gaussian(scale), facts=shown)]
        shown |= {"epsilon_each": 1 / scale, "rank_error": 2 * scale}
        if 4 * scale >= self.blocks:
            shown["warning"] = "ranks off by half of the blocks: take a mean, or fewer weights"
        event = exponential(1 / scale)
        return [Release(what="medians", event=event, count=self.width(facts), facts=shown)]

    def _advice(self, facts: PublicFacts) -> dict[str, Fact]:
        """Return the size of a block, and how many blocks suit estimators without bias.

        The bias of a block of m records, about c/m, isn't averaged out, so that of other
        estimators asks for fewer blocks.
        """
        if facts.records is None:
            return {}
        shown: dict[str, Fact] = {"records_per_block": facts.records // self.blocks}
        if facts.epsilon is not None:
            advised = max(2, round(math.sqrt(facts.records) / facts.epsilon))
            shown["blocks_for_unbiased_estimators"] = min(advised, facts.records)
        return shown

    def sensitivity(self, facts: PublicFacts) -> float:
        """Return how far one unit's presence moves the mean, as accountants take it.

        A unit that is present, absent or zeroed out moves it by 2R/k. Under `replace_one` it is
        R/k, since accountants double it there.
        """
        moves = 1.0 if facts.relation == "replace_one" else 2.0
        # What rounding adds to two sums of so many vectors (`sum_in_ball`), twice.
        return moves * self.radius / self.blocks * (1 + self.blocks**2 * 2.0**-52)

    def width(self, facts: PublicFacts) -> int:
        """Return how many medians are charged."""
        if self.coordinates != "auto":
            return self.coordinates
        return (math.prod(facts.input_shape) + 1) * facts.outputs

    def prepare(self, network: nn.Module, facts: PublicFacts) -> nn.Module:
        """Return the network; a linear estimator's has a last layer that bounds its input."""
        if not isinstance(self.inner, LinearInner):
            return network
        from dppipe.learners.linear.last_layer import bound_last_layer

        return bound_last_layer(
            network,
            facts,
            learner=self.kind,
            max_norm=self.inner.max_norm,
            scale=self.inner.scale,
        )

    def estimator(self, job: Job) -> Estimator:
        """Return what is trained on each block; call this before a release."""
        if isinstance(self.inner, LinearInner):
            from dppipe.learners.aggregation.linear_inner import LinearEstimator

            return LinearEstimator.of(self.inner, job)
        from dppipe.learners.aggregation.network_inner import NetworkEstimator
        from dppipe.learners.aggregation.shared_state import refuse_shared_state

        found = NetworkEstimator(self.inner, job.facts, job.module)
        refuse_shared_state(found)
        return found

    def fit(self, job: Job, gate: Gate) -> nn.Module:
        """Move the weights from the origin by the noisy mean, or the noisy medians."""
        estimator = self.estimator(job)
        self._refuse_other_width(job.facts, estimator.size)
        release = gate.next()
        if release is None:
            return job.module
        if self.aggregate == "mean":
            moved = gate.add_noise(release, lambda: self.bounded_mean(job, estimator))
        else:
            moved = self._medians(job, gate, release, estimator)
        estimator.set_weights(moved)
        return job.module

    def bounded_mean(self, job: Job, estimator: Estimator) -> Bounded:
        """Return the mean of all estimates; call this inside a gate's computation."""
        from dppipe.learners.aggregation.estimates import sum_in_ball
        from dppipe.learners.gating.bounded import Bounded

        total = sum_in_ball(job, estimator, blocks=self.blocks, radius=self.radius)
        return Bounded(total / self.blocks, self.sensitivity(job.facts))

    def _medians(self, job: Job, gate: Gate, release: Release, estimator: Estimator) -> Tensor:
        from dppipe.learners.aggregation.estimates import table_of

        return gate.medians(
            release,
            lambda: table_of(job, estimator, blocks=self.blocks),
            columns=estimator.size,
            radius=self.radius,
        )

    def _refuse_other_width(self, facts: PublicFacts, size: int) -> None:
        if self.aggregate == "median" and size != self.width(facts):
            raise UsageError(
                f"learner.coordinates: expected {size}, the number of weights that are trained, "
                f"got {self.width(facts)}. State it: each median is paid for."
            )
