"""The spec: everything that a run is made of, strictly typed and frozen.

`load_spec` (in `load.py`) reads one from YAML; `to_yaml` writes the effective spec back, defaults
filled in. Rules that span several blocks are in `rules/`. Nothing here imports torch or an
accounting library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    PlainSerializer,
    ValidationInfo,
    WrapValidator,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler

from dppipe.component import Component, Field, Options
from dppipe.privacy.budget import Budget
from dppipe.privacy.release import PublicFacts
from dppipe.spec.component_field import ComponentOf, default_component
from dppipe.spec.kinds.registry import plugin_files
from dppipe.spec.performance import Performance
from dppipe.spec.public_data import count_public_inputs
from dppipe.spec.train import Train
from dppipe.spec.tuning.tune import Tune
from dppipe.spec.unused_blocks import LEARNER_BLOCKS, fill_unused_blocks
from dppipe.spec.yaml.writer import write_yaml


def _budget_or_none(value: Any, budget: ModelWrapValidatorHandler[Budget]) -> Any:
    return value if value == "none" else budget(value)


def _budget_data(value: Any) -> Any:
    return value if value == "none" else value.model_dump(mode="json", exclude_none=True)


def _integer_only(value: Any) -> Any:
    # Python holds `True == 1 == 1.0`, and a literal is compared so.
    if type(value) is not int:
        raise ValueError("expected 1. Write `version: 1`, the version of this format.")
    return value


if TYPE_CHECKING:
    from dppipe.clipping.base import Clipper
    from dppipe.data.base import Data
    from dppipe.learners.base import Learner
    from dppipe.models.base import Model
    from dppipe.noise.base import NoiseSchedule
    from dppipe.optim.base import Optimizer
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.sampling.base import Sampler

    BudgetOrNone = Budget | Literal["none"]
else:
    # The families stand below this layer: at run time each is found by name in the registry.
    Accountant, Clipper, Data, Learner, Model, NoiseSchedule, Optimizer, Sampler = (
        Annotated[Component, ComponentOf(block)]
        for block in (
            "accountant",
            "clipping",
            "data",
            "learner",
            "model",
            "noise",
            "optimizer",
            "sampler",
        )
    )
    BudgetOrNone = Annotated[
        Budget,
        WrapValidator(_budget_or_none, json_schema_input_type=Budget | Literal["none"]),
        PlainSerializer(_budget_data),
    ]


class Spec(Options):
    """One run, as its YAML file says it."""

    version: Annotated[Literal[1], BeforeValidator(_integer_only)] = Field(
        description="The version of this format."
    )
    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=100,
        description="The name of the run's folder: letters, digits and `._-`.",
    )
    seed: int = Field(
        0,
        ge=0,
        lt=2**32,
        description="Seeds weights and public splits; never the sampler, the noise or what a "
        "private step draws.",
    )
    reproducible: bool = Field(
        False, description="Seeds sampler and noise too, for tests: such a run gives no protection."
    )
    learner: Learner = Field(
        default_factory=default_component("learner", "dp_sgd"),
        description="How records become a model.",
    )
    data: Data = Field(description="Where records come from.")
    model: Model = Field(description="What is trained.")
    optimizer: Optimizer | None = Field(
        None, description="What turns noisy gradients into updates."
    )
    sampler: Sampler = Field(description="How the records of a step are drawn.")
    clipping: Clipper = Field(
        default_factory=default_component("clipping", "flat"),
        description="How gradients are bounded.",
    )
    noise: NoiseSchedule = Field(
        default_factory=default_component("noise", "constant"),
        description="The noise over the run.",
    )
    accountant: Accountant = Field(
        default_factory=default_component("accountant", "pld"),
        description="What proves the cost of the run.",
    )
    budget: BudgetOrNone = Field(
        description="The most the run may cost, or `none` for a run without privacy."
    )
    train: Train = Field(description="How long the run trains.")
    tune: Tune | None = Field(
        None, description="A private search among candidates, whose whole cost the budget covers."
    )
    performance: Performance = Field(
        default_factory=Performance,
        description="Speed and memory; nothing here changes what is charged.",
    )
    diagnostics: Literal["off", "nonprivate"] = Field(
        "off",
        description="`nonprivate`: log norm quantiles, clipped share and signal-to-noise, which no "
        "guarantee covers.",
    )

    @model_validator(mode="before")
    @classmethod
    def _only_blocks_that_the_learner_takes(cls, data: Any, info: ValidationInfo) -> Any:
        return fill_unused_blocks(data, registry=info.context)

    @model_validator(mode="after")
    def _one_physical_batch_size(self) -> Self:
        # `gather_performance` moves it from a file's `sampler` block; this is a Spec made in
        # Python.
        if self.sampler.physical_batch_size != "auto":
            raise ValueError(
                "sampler.physical_batch_size: expected it in performance, "
                f"got {self.sampler.physical_batch_size} in the sampler of a Spec. Move it there."
            )
        return self

    @property
    def private(self) -> bool:
        """Whether the run has a budget."""
        return self.budget != "none"

    @property
    def trained_model(self) -> Model | None:
        """The model that the run trains: the `model` block, or one inside the learner's block."""
        return self.model if "model" in self.learner.takes else self.learner.own_model

    @property
    def takes_steps(self) -> bool:
        """Whether the learner draws batches by a sampler, step by step."""
        return "sampler" in self.learner.takes

    @property
    def unit(self) -> str:
        """Whose privacy is protected: a user's where the data says whose each record is."""
        return "user" if self.data.by_users else "example"

    def public_count(self) -> int | None:
        """Return the number of the data's training units: of records, or of users.

        None where the relation keeps it secret.
        """
        if self.budget != "none" and self.budget.relation == "add_remove":
            return None
        return self.data.train_users() if self.data.by_users else self.data.train_count()

    def public_facts(self) -> PublicFacts:
        """Return what is known of the run before a record is read."""
        layout = self.data.input_layout
        return PublicFacts(
            records=self.public_count(),
            unit=self.unit,
            relation="zero_out" if self.budget == "none" else self.budget.relation,
            input_shape=layout.shape,
            outputs=self.data.outputs,
            task=self.data.task,
            epsilon=None if self.budget == "none" else self.budget.epsilon,
            delta=None if self.budget == "none" else self.budget.delta,
            public_inputs=count_public_inputs(self.learner),
            seed=self.seed,
            category_counts=layout.category_counts,
            vocabulary=layout.vocabulary,
        )

    def sized_sampler(self) -> Sampler:
        """Return the sampler with the physical batch size of `performance`."""
        size = self.performance.physical_batch_size
        return self.sampler.model_copy(update={"physical_batch_size": size})

    def components(self) -> Iterator[Component]:
        """Yield every component, also those inside others."""
        waiting: list[Any] = [getattr(self, name) for name in type(self).model_fields]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Options):
                waiting += [getattr(value, name) for name in type(value).model_fields]
            elif isinstance(value, (list, tuple)):
                waiting += value
            if isinstance(value, Component):
                yield value

    def plugin_files(self) -> dict[str, str]:
        """Return the plugin files that this spec uses, each with its SHA-256."""
        return plugin_files(self.components())

    def to_data(self) -> dict[str, Any]:
        """Return the effective spec as plain data, defaults filled in."""
        data = self.model_dump(mode="json", exclude_none=True)
        del data["sampler"]["physical_batch_size"]  # it is in `performance`
        for block in LEARNER_BLOCKS - self.learner.takes:
            data.pop(block, None)
        if self.learner.kind == "dp_sgd":
            del data["learner"]  # as specs of earlier versions say it
        return data

    def to_yaml(self) -> str:
        """Return the effective spec as YAML that reads back to an equal spec."""
        return write_yaml(self.to_data())


def committed_hash(spec: Spec) -> str:
    """Return the SHA-256 of what could change privacy.

    That is all but the optimizer, the `performance` block and how, not how long, training is run.
    """
    return data_hash(_committed_data(spec))


def earlier_committed_hash(spec: Spec) -> str:
    """Return `committed_hash` as versions without a `performance` block computed it.

    They counted `sampler.physical_batch_size` in.
    """
    data = _committed_data(spec)
    data["sampler"] = spec.sized_sampler().to_data()
    return data_hash(data)


def _committed_data(spec: Spec) -> dict[str, Any]:
    data = spec.to_data()
    data.pop("optimizer", None)
    del data["performance"]
    train = data.get("train")
    if train is not None:
        data["train"] = {name: train.get(name) for name in ("steps", "epochs", "until")}
    return data


def data_hash(data: dict[str, Any]) -> str:
    """Return the SHA-256 of plain data: of the bytes of its YAML."""
    return hashlib.sha256(write_yaml(data).encode()).hexdigest()


def spec_hash(spec: Spec) -> str:
    """Return the SHA-256 of the effective spec: of the bytes of `to_yaml`.

    Example:
        >>> from dppipe.spec import load_spec, spec_hash
        >>> len(spec_hash(load_spec("pipelines/quickstart.yaml")))
        64
    """
    return data_hash(spec.to_data())
