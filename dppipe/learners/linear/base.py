"""What learners of linear models have in common: their bounds, and the layer that they train.

Such a learner computes with rows of bounded norm (`rows.py`), which are read inside the gate:

    layer = bounded_layer(job.module)
    features = feature_map(job.module, job.facts)  # refuses networks before anything is charged
    rows = bounded_rows(job.records, job.facts, ..., features=features)  # inside compute()
    layer.set_solution(solution)  # [outputs, layer.row_width]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from dppipe.component import AutoFloat, Field
from dppipe.learners.base import Learner

if TYPE_CHECKING:
    from torch import nn

    from dppipe.learners.job import Job
    from dppipe.learners.linear.rows import Features, Rows
    from dppipe.models.base import Model
    from dppipe.privacy.release import PublicFacts


class LinearLearner(Learner):
    """Trains the last layer of a network, on features of bounded norm.

    Guarantee: the bound is an option, and every record is scaled by itself alone
    (`row_bounds.py`).
    """

    max_norm: float = Field(
        1.0,
        ge=1e-6,
        le=1e6,
        description="The bound on the norm of each record's features; a public constant.",
    )
    scale_inputs: Literal["clip", "unit"] = Field(
        "clip",
        alias="scale",
        description="`clip` shortens longer features to the bound, `unit` gives all its length.",
    )
    noise_multiplier: AutoFloat = Field(
        "auto", gt=0, description="The noise relative to the sensitivity; auto: by the budget."
    )

    takes: ClassVar[frozenset[str]] = frozenset({"model"})

    def model_problems(self, model: Model) -> Iterator[tuple[str, str]]:
        """Yield what can't be trained: adapters, and networks of several layers."""
        yield from last_layer_problems(self.kind, model)

    def prepare(self, network: nn.Module, facts: PublicFacts) -> nn.Module:
        """Return the network with a last layer that bounds its input."""
        from dppipe.learners.linear.last_layer import bound_last_layer

        return bound_last_layer(
            network, facts, learner=self.kind, max_norm=self.max_norm, scale=self.scale_inputs
        )

    def features(self, job: Job) -> Features | None:
        """Return the map to a record's features; None where they are its flattened input.

        A network in which records see each other is refused: call this before a release.
        """
        from dppipe.learners.linear.feature_map import feature_map

        return feature_map(job.module, job.facts)

    def rows(self, job: Job, features: Features | None) -> Rows:
        """Return all records as rows of bounded norm; call this inside a gate's computation."""
        from dppipe.learners.linear.last_layer import bounded_layer
        from dppipe.learners.linear.rows import bounded_rows

        return bounded_rows(
            job.records,
            job.facts,
            max_norm=self.max_norm,
            scale=self.scale_inputs,
            bias=bounded_layer(job.module).bias is not None,
            features=features,
        )


def last_layer_problems(learner: str, model: Model) -> Iterator[tuple[str, str]]:
    """Yield why a learner of this kind can't train the last layer of a model alone."""
    if model.lora is not None:
        yield (
            "lora",
            f"expected no adapters with learner {learner!r}, which trains the last linear "
            "layer alone, got lora. Remove it, or take learner: dp_sgd.",
        )
    elif model.kind != "logistic" and model.trainable is None:
        yield (
            "trainable",
            f"expected the name of the last layer, which learner {learner!r} trains alone, "
            "got nothing. Name it, such as ['3.*'], or take kind: logistic.",
        )
