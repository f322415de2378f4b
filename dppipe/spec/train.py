"""The `train` block: what training lowers, how long it lasts, and what is measured and saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import field_validator, model_validator

from dppipe.component import Component, Field, Options
from dppipe.spec.component_field import ComponentOf
from dppipe.spec.metrics import Metric, NamedMetric

if TYPE_CHECKING:
    from dppipe.losses.base import Loss
else:
    Loss = Annotated[Component, ComponentOf("loss")]

_REFUSED_PRECISION = {
    "16": "float16 training rescales the loss and skips steps by what the data hold, which isn't "
    "accounted for",
    "64": "double precision isn't offered",
    "bf16-true": "bfloat16 parameters would round the noise away",
}


class Train(Options):
    """How long a run lasts, and how often it validates and saves."""

    steps: int | None = Field(
        None, gt=0, description="Logical steps: one draw, one release, one update each."
    )
    epochs: float | None = Field(
        None, gt=0, description="Passes over the data on average; steps = epochs / sample rate."
    )
    until: Literal["budget"] | None = Field(
        None, description="`budget`: go on until the next step would exceed the budget."
    )
    loss: Loss | None = Field(
        None,
        description="What training lowers; unless given, cross-entropy for classes and squared "
        "errors for a regression.",
    )
    metrics: tuple[NamedMetric, ...] | None = Field(
        None,
        min_length=1,
        description="What is measured on validation and test records, by name; unless given, "
        "accuracy (and AUROC for two classes), or mse and r2.",
    )
    precision: Literal["32-true", "bf16-mixed"] = Field(
        "32-true",
        description="Precision of the forward pass; clipped sums and noise are always float32 or "
        "wider.",
    )
    validate_every: int | None = Field(
        None, gt=0, description="Steps between validations; if not given, about an epoch."
    )
    checkpoint_every: int | None = Field(
        None, gt=0, description="Steps between checkpoints; if not given, about an epoch."
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _list_of_metrics(cls, value: Any) -> Any:
        # A list counts as a tuple in JSON, but no longer after a rule of the whole spec has run.
        return tuple(value) if isinstance(value, list) else value

    @field_validator("metrics")
    @classmethod
    def _each_once(cls, value: tuple[Metric, ...] | None) -> tuple[Metric, ...] | None:
        seen = set()
        for metric in value or ():
            if (metric.kind, metric.average) in seen:
                raise ValueError(f"expected each metric once, got {metric.kind} twice. Remove one.")
            seen.add((metric.kind, metric.average))
        return value

    @field_validator("precision", mode="before")
    @classmethod
    def _say_why_refused(cls, value: Any) -> Any:
        for name, reason in _REFUSED_PRECISION.items():
            if isinstance(value, str) and value.startswith(name):
                raise ValueError(
                    f"expected 32-true or bf16-mixed, got {value!r}: {reason}. Choose one "
                    "of the two."
                )
        return value

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        given = [name for name in ("steps", "epochs", "until") if getattr(self, name) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none of them"
            raise ValueError(
                f"expected exactly one of steps, epochs and until, got {got}. Say how long "
                "the run lasts once."
            )
        return self
