"""The options of teachers and of the student; nothing here needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import model_validator

from dppipe.component import Component, Field, Options
from dppipe.spec.component_field import ComponentOf, default_component

if TYPE_CHECKING:
    from dppipe.models.base import Model
    from dppipe.optim.base import Optimizer
else:
    Model = Annotated[Component, ComponentOf("model")]
    Optimizer = Annotated[Component, ComponentOf("optimizer")]

TEACHER_REGULARIZATION = 0.1
STUDENT_REGULARIZATION = 0.3


class Passes(Options):
    """How long a network is trained."""

    epochs: int = Field(
        100, gt=0, description="Passes over the inputs; without an optimizer, rounds of L-BFGS."
    )
    batch_size: int | None = Field(
        None, gt=0, description="Inputs of one update; if not given, all of them."
    )


class Trained(Options):
    """What is trained by ordinary training, without noise."""

    regularization: float | None = Field(
        None,
        ge=0,
        description="The weight of the squared weights beside the sum of losses, without an "
        f"optimizer; if not given, {TEACHER_REGULARIZATION:g} for teachers and "
        f"{STUDENT_REGULARIZATION:g} for the student.",
    )
    optimizer: Optimizer | None = Field(
        None, description="What trains a network; if not given, L-BFGS on all inputs at once."
    )
    train: Passes = Field(Passes(), description="How long a network is trained.")

    @model_validator(mode="after")
    def _fitting_options(self) -> Self:
        if self.optimizer is None:
            if self.train.batch_size is not None:
                raise ValueError(
                    "expected batch_size beside an optimizer, got it without one: L-BFGS takes all "
                    "inputs at once. Remove it, or name an optimizer."
                )
            return self
        if self.regularization is not None:
            raise ValueError(
                "expected no regularization beside an optimizer, got both. Give the optimizer a "
                "weight_decay instead."
            )
        if self.optimizer.averaging is not None:
            raise ValueError("expected no averaging of weights here, got some. Remove it.")
        return self


class Teacher(Trained):
    """How one teacher is trained on its block of the records."""

    kind: Literal["ridge", "network"] = Field(
        "ridge",
        description="`ridge`: least squares with a regularisation, in closed form; `network`: a "
        "model of its own for each block.",
    )
    model: Model | None = Field(None, description="The network of each teacher, for `network`.")

    @model_validator(mode="after")
    def _fitting_kind(self) -> Self:
        if self.kind == "network" and self.model is None:
            raise ValueError(
                "expected model beside kind: network, got none. Name one, such as mlp."
            )
        given = [name for name in ("model", "optimizer") if getattr(self, name) is not None]
        if self.kind == "ridge" and self.train != Passes():
            given.append("train")
        if self.kind == "ridge" and given:
            raise ValueError(
                f"expected no {' and no '.join(given)} beside kind: ridge, got some. Remove it, or "
                "take kind: network."
            )
        return self

    def problems(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what could make teachers of different blocks depend on each other's records."""
        model = self.model
        if model is None:
            return
        if model.pretrained is not None or model.lora is not None:
            yield (
                ("model",),
                "expected teachers that start from nothing, got weights from a file or adapters. "
                "Every teacher would share what those were trained on: remove them.",
            )
        elif not type(model).__module__.startswith("dppipe.models.") or model.kind == "class_path":
            yield (
                ("model",),
                f"expected a model of the package, got {model.kind!r}. A class of your own may "
                "keep a state from one teacher to the next: take mlp or cnn, or kind: ridge.",
            )


class Student(Trained):
    """The model of the run: it is trained on public inputs and their noisy labels."""

    model: Model = Field(
        default_factory=default_component("model", "logistic"), description="The student's network."
    )
