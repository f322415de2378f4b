"""PATE: teachers on disjoint blocks vote on public inputs, and a student learns from noisy labels.

Papernot et al. 2017 and 2018. Only votes are released, so teachers and student may be trained in
any way. What it takes is public inputs, without labels, that look like the private ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from dppipe.component import AutoFloat, Component, Field
from dppipe.learners.base import Learner, PublicFacts, Release
from dppipe.learners.teaching.options import STUDENT_REGULARIZATION, Student, Teacher
from dppipe.learners.teaching.vote_bounds import MOVED_LARGEST, MOVED_VOTES, Noise, Query
from dppipe.privacy.release import Fact
from dppipe.spec.component_field import ComponentOf

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dppipe.data.base import Data
    from dppipe.learners.gate import Gate
    from dppipe.learners.job import Job
    from dppipe.learners.teaching.votes import Voting
    from dppipe.models.base import Model
else:
    Data = Annotated[Component, ComponentOf("data")]

_CONFIDENT = ("asked", "threshold", "threshold_noise_ratio")
"""The options that only `confident_gnmax` has."""
_SHARE = 0.8
"""The share of the teachers that has to agree, unless a threshold is stated."""
_NOISE_RATIO = 3.75
"""The noise on the largest count over that on each count, unless stated (Papernot et al. 2018)."""


class Pate(Learner, kind="pate"):
    """Releases noisy votes of teachers, and trains a student on the labels that they elect.

    Guarantee: a unit is in one block, and a teacher is a function of its own block, of public facts
    and of randomness of its own. It gives each public input one vote or none. So one unit moves the
    counts of each query by at most sqrt(2) in the Euclidean norm, 2 in the sum of absolute values
    and 1 in the largest of them, under every relation (`teaching/vote_bounds.py`; Papernot et al.
    2018, section 4). Noise of scale s on all counts of a query is charged for that query, whatever
    the votes are; labels and student follow from the noisy counts and from public inputs alone.
    """

    scale_option: ClassVar[str] = "noise_scale"

    teachers: int = Field(250, ge=2, description="How many blocks the records are split into.")
    queries: int = Field(
        ge=1, examples=[200], description="How many public inputs get a label; each is charged."
    )
    aggregator: Literal["gnmax", "confident_gnmax", "lnmax"] = Field(
        "gnmax",
        description="`gnmax`: Gaussian noise on the counts of votes; `lnmax`: Laplace noise; "
        "`confident_gnmax`: only inputs on which enough teachers agree get a label.",
    )
    noise_scale: AutoFloat = Field(
        "auto",
        gt=0,
        description="The noise on each count, in votes: the standard deviation, or the scale of "
        "Laplace noise; auto: by the budget.",
    )
    asked: int | None = Field(
        None,
        ge=1,
        description="How many public inputs are looked at for `confident_gnmax`, each of which is "
        "charged; if not given, twice `queries`, or all.",
    )
    threshold: float | None = Field(
        None,
        gt=0,
        description=f"The noisy votes that a label needs for `confident_gnmax`; if not given, "
        f"{_SHARE:g} of the teachers.",
    )
    threshold_noise_ratio: float | None = Field(
        None,
        gt=0,
        description="The noise on the largest count over `noise_scale`, for `confident_gnmax`; if "
        f"not given, {_NOISE_RATIO:g}.",
    )
    public: Data = Field(
        examples=[{"kind": "synthetic"}],
        description="Public inputs, of which no one needs protection; labels aren't read.",
    )
    teacher: Teacher = Field(Teacher(), description="How each teacher is trained.")
    student: Student = Field(Student(), description="The model of the run, and its training.")

    @property
    def public_data(self) -> Data:
        """The public inputs."""
        return self.public

    @property
    def own_model(self) -> Model:
        """The student's network."""
        return self.student.model

    @property
    def is_confident(self) -> bool:
        """Whether only inputs on which enough teachers agree get a label."""
        return self.aggregator == "confident_gnmax"

    def looked_at(self, facts: PublicFacts) -> int:
        """Return how many public inputs the teachers vote on."""
        if not self.is_confident:
            return self.queries
        if self.asked is not None:
            return self.asked
        return max(self.queries, min(2 * self.queries, facts.public_inputs or 2 * self.queries))

    @property
    def needed_votes(self) -> float:
        """The noisy votes that a label needs for `confident_gnmax`."""
        return _SHARE * self.teachers if self.threshold is None else self.threshold

    def vote_query(self, facts: PublicFacts, *, scale: float) -> Query:
        """Return what the counts of one input cost."""
        noise: Noise = "laplace" if self.aggregator == "lnmax" else "gaussian"
        return Query(noise, scale, MOVED_VOTES[noise], facts.relation)

    def confidence_query(self, facts: PublicFacts, *, scale: float) -> Query:
        """Return what the largest count of one input costs."""
        ratio = self.threshold_noise_ratio or _NOISE_RATIO
        return Query("gaussian", ratio * scale, MOVED_LARGEST, facts.relation)

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return the votes; for `confident_gnmax`, the largest counts before them.

        Both numbers of queries are fixed, and charged whatever the votes are. Where fewer inputs
        pass the threshold than get a label, the rest of the votes is noise alone.
        """
        shown: dict[str, Fact] = {"teachers": self.teachers, "queries": self.queries}
        shown["public"] = str(getattr(self.public, "path", self.public.kind))
        votes = Release(
            what="vote",
            event=self.vote_query(facts, scale=scale).event(),
            count=self.queries,
            facts={"aggregator": self.aggregator, "noise_scale": scale, **shown},
        )
        if not self.is_confident:
            return [votes]
        largest = self.confidence_query(facts, scale=scale)
        asked = self.looked_at(facts)
        shown |= {"asked": asked, "threshold": self.needed_votes, "noise_scale": largest.scale}
        confidence = Release(what="confidence", event=largest.event(), count=asked, facts=shown)
        return [confidence, votes]

    def problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield tasks without classes, too few records or inputs, and options that don't apply."""
        if facts.task == "regression":
            yield (
                ("learner", "kind"),
                "expected a task with classes, which teachers can vote for, got a regression. Take "
                "another learner.",
            )
        one = "users" if facts.unit == "user" else "records"
        if facts.records is not None and self.teachers > facts.records:
            yield (
                ("learner", "teachers"),
                f"expected at most {facts.records}, the number of training {one}, got "
                f"{self.teachers}. Every teacher needs some: lower it.",
            )
        yield from self._query_problems(facts)
        for option, message in self.teacher.problems():
            yield ("learner", "teacher", *option), message

    def _query_problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str, ...], str]]:
        if not self.is_confident:
            for name in _CONFIDENT:
                if getattr(self, name) is not None:
                    yield (
                        ("learner", name),
                        f"expected nothing with aggregator {self.aggregator!r}, got a number. "
                        "Remove it, or take confident_gnmax.",
                    )
        elif self.asked is not None and self.asked < self.queries:
            yield (
                ("learner", "asked"),
                f"expected at least queries, {self.queries}, got {self.asked}. Raise it.",
            )
        asked = "asked" if self.asked is not None and self.is_confident else "queries"
        if facts.public_inputs is not None and self.looked_at(facts) > facts.public_inputs:
            yield (
                ("learner", asked),
                f"expected at most {facts.public_inputs}, the number of public inputs, got "
                f"{self.looked_at(facts)}. Lower it, or give more inputs.",
            )

    def fit(self, job: Job, gate: Gate) -> nn.Module:
        """Release the votes, and train the student on the labels that they elect."""
        from dppipe.learners.teaching.training import train_network
        from dppipe.learners.teaching.votes import Voting, elect, public_inputs

        inputs = public_inputs(job, count=self.looked_at(job.facts))
        voting = Voting(job, self.teacher, teachers=self.teachers, inputs=inputs)
        chosen = self._choose(job, gate, voting)
        labels = elect(self._vote(job, gate, voting, chosen))[: len(chosen)]
        train_network(
            job.module,
            inputs[chosen],
            labels,
            self.student,
            regularization=STUDENT_REGULARIZATION,
            task=job.facts.task,
            seed=job.facts.seed,
        )
        return job.module

    def _choose(self, job: Job, gate: Gate, voting: Voting) -> Tensor:
        """Return which public inputs get a label: `[at most queries]` of their numbers."""
        import torch

        from dppipe.learners.gating.bounded import Bounded
        from dppipe.learners.teaching.votes import confident_places

        if not self.is_confident:
            return torch.arange(self.queries)
        query = self.confidence_query(job.facts, scale=1.0)
        release = gate.next()
        if release is None:
            return torch.arange(0)
        largest = gate.add_noise(
            release, lambda: Bounded(voting.largest_counts(), query.sensitivity)
        )
        return confident_places(largest, threshold=self.needed_votes, most=self.queries)

    def _rho_before(self, facts: PublicFacts, *, scale: float) -> float:
        """Return the rho, as of zCDP, of what is released before the votes."""
        if not self.is_confident:
            return 0.0
        query = self.confidence_query(facts, scale=scale)
        return self.looked_at(facts) * (query.moved / query.scale) ** 2 / 2

    def _vote(self, job: Job, gate: Gate, voting: Voting, chosen: Tensor) -> Tensor:
        """Return the noisy counts of the chosen inputs, `[queries, classes]`.

        Guarantee: there are always that many rows with noise, however few were chosen.
        """
        from dppipe.learners.gating.bounded import Bounded
        from dppipe.learners.teaching.diagnostics import VoteDiagnostics

        query = self.vote_query(job.facts, scale=1.0)
        release = gate.next()
        if release is None:
            return voting.no_counts(self.queries)
        rho = self._rho_before(job.facts, scale=float(release.facts["noise_scale"]))
        diagnostics = VoteDiagnostics(job, release, rho=rho)

        def votes() -> Bounded:
            counts = voting.counts_at(chosen, self.queries)
            diagnostics.look(counts[: len(chosen)])
            return Bounded(counts.flatten(), query.sensitivity)

        noisy = gate.add_noise(release, votes)
        diagnostics.write()
        return noisy.reshape(self.queries, -1)
