"""Exponential: a choice among finished models, by what they lose on the records (one release).

The candidates are files of weights. The exponential mechanism (McSherry and Talwar 2007) prefers
those with a low sum of losses; permute-and-flip (McKenna and Sheldon 2020) is never worse in the
expected score, and has no zCDP bound of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from dppipe.component import AutoFloat, Field
from dppipe.learners.base import Learner, PublicFacts, Release
from dppipe.learners.selecting.candidate_files import file_hash
from dppipe.models.base import Pretrained
from dppipe.privacy.events.mechanisms import exponential, permute_and_flip

if TYPE_CHECKING:
    from torch import nn

    from dppipe.learners.gate import Gate
    from dppipe.learners.gating.bounded import Bounded
    from dppipe.learners.job import Job
    from dppipe.models.base import Model


class Exponential(Learner, kind="exponential"):
    """Chooses one of several files of weights.

    Guarantee: one unit's presence lowers each score by between 0 and `loss_bound`, so all scores
    move in one direction and a selection of spread `loss_bound` is epsilon-private, under zero_out
    and add_remove (`dppipe/randomness/SELECTION.md`, lemma 6). A replaced unit has twice the
    spread, and gets twice the noise. A unit is a record, or a user with the mean loss of all
    records. The candidates, their number and their order are public, or come from private runs
    whose cost the plan adds. The choice is all that is released.
    """

    candidates: tuple[Path, ...] = Field(
        min_length=2,
        max_length=1000,
        examples=[["a.ckpt", "b.ckpt"]],
        description="The files to choose from: weights of the `model` block, as .safetensors or as "
        "torch.save wrote them. Those of a private run are recognised, and its cost counts.",
    )
    loss_bound: float = Field(
        ge=1e-6,
        le=1e6,
        examples=[1.0],
        description="Each record's loss is clamped to [0, loss_bound]; a public constant.",
    )
    mechanism: Literal["exponential", "permute_and_flip"] = Field(
        "exponential", description="How the choice is drawn."
    )
    epsilon: AutoFloat = Field(
        "auto", ge=1e-6, le=1e3, description="What the choice costs; auto: what the budget allows."
    )
    records: Literal["same", "disjoint"] = Field(
        "same",
        description="Of candidates that private runs have trained: `same` adds the runs' costs; "
        "`disjoint` states that no person has records in both, and the larger cost is claimed.",
    )

    takes: ClassVar[frozenset[str]] = frozenset({"model"})

    @property
    def scale(self) -> float | None:
        """One over the epsilon that is set; None to find the one that lands on the budget."""
        return None if self.epsilon == "auto" else 1 / self.epsilon

    def set_scale(self, scale: float) -> tuple[str, float]:
        """Return the epsilon of a choice at this scale."""
        return "epsilon", 1 / scale

    @property
    def weight_files(self) -> tuple[Pretrained, ...]:
        """The candidates: a private run that has trained one of them counts."""
        return tuple(Pretrained(path=path, records=self.records) for path in self.candidates)

    def problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield candidates that aren't there, or that stand in the list twice."""
        for number, path in enumerate(self.candidates):
            if not path.is_file():
                where = "" if path.is_absolute() else f" in the working directory {Path.cwd()}"
                yield (
                    ("learner", "candidates", number),
                    f"expected a file of weights, got {path}, which isn't there{where}. Correct "
                    "the path.",
                )
        if len(set(self.candidates)) < len(self.candidates):
            yield ("learner", "candidates"), "expected each file once, got one twice. Remove it."

    def model_problems(self, model: Model) -> Iterator[tuple[str, str]]:
        """Yield options of training: nothing is trained here."""
        for option in ("pretrained", "trainable"):
            if getattr(model, option) is not None:
                yield (
                    option,
                    f"expected nothing with learner {self.kind!r}, which takes its weights from "
                    "learner.candidates and trains none, got a value. Remove it.",
                )

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return the one release: the choice."""
        epsilon = 1 / scale if self.epsilon == "auto" else self.epsilon
        charged = exponential if self.mechanism == "exponential" else permute_and_flip
        hashes = {}
        for number, path in enumerate(self.candidates, start=1):
            hashes[f"sha256_{number}"] = file_hash(path)
        return [
            Release(
                what="selection",
                event=charged(epsilon),
                facts={
                    "mechanism": self.mechanism,
                    "epsilon": epsilon,
                    "loss_bound": self.loss_bound,
                    "candidates": len(self.candidates),
                    **hashes,
                },
                place="learner.epsilon",
            )
        ]

    def fit(self, job: Job, gate: Gate) -> nn.Module:
        """Set the network to the candidate that was chosen."""
        from dppipe.learners.gating.bounded import Bounded
        from dppipe.learners.selecting.candidate_networks import candidate_networks
        from dppipe.learners.selecting.loss_scores import loss_scores

        release = gate.next()
        if release is None:
            return job.module
        hashes = []
        for number in range(1, len(self.candidates) + 1):
            hashes.append(str(release.facts[f"sha256_{number}"]))
        networks = candidate_networks(job, self.candidates, hashes)

        def scores() -> Bounded:
            found = loss_scores(networks, job.records, job.facts, loss_bound=self.loss_bound)
            return Bounded(found, self.loss_bound, monotone=True)

        chosen = gate.select(release, scores)
        job.module.load_state_dict(networks[chosen].state_dict())
        return job.module
