"""Metrics by name: what `train.metrics` may list, and which tasks each is for.

`dppipe/lightning/metrics/named.py` computes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import PlainSerializer, WrapValidator, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from dppipe.component import Field, Options

if TYPE_CHECKING:
    from dppipe.privacy.release import PublicFacts

MetricName = Literal[
    "accuracy",
    "auroc",
    "average_precision",
    "balanced_accuracy",
    "calibration_error",
    "confusion_matrix",
    "f1",
    "mae",
    "mse",
    "precision",
    "r2",
    "recall",
    "rmse",
]
Average = Literal["macro", "micro", "per_class", "weighted"]

OF_NUMBERS = frozenset({"mae", "mse", "r2", "rmse"})
"""The metrics of a regression; the others are of classes."""
_RANKED = frozenset({"auroc", "average_precision"})
AVERAGED = frozenset({"f1", "precision", "recall"}) | _RANKED
"""The metrics that each class has a number of."""
MOST_CLASSES = {"confusion_matrix": 30, "per_class": 1000}
"""The most classes for which every number is kept."""


class Metric(Options):
    """What is measured on validation and test records."""

    kind: MetricName = Field(description="The metric's name.")
    average: Average | None = Field(
        None,
        description="What is shown of one number for each class: their mean (`macro`), each of "
        "them (`per_class`), and so on. Unless given, `macro`; of two classes, the second's.",
    )
    bins: int = Field(15, gt=1, le=1000, description="The bins of `calibration_error`.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.average is not None and self.kind not in AVERAGED:
            raise ValueError(
                f"expected average beside {', '.join(sorted(AVERAGED))} only, got it beside "
                f"{self.kind}. Leave it out."
            )
        if self.average == "micro" and self.kind in _RANKED:
            raise ValueError(
                f"expected macro, weighted or per_class for {self.kind}, got micro. Take macro."
            )
        if "bins" in self.model_fields_set and self.kind != "calibration_error":
            raise ValueError(
                f"expected bins beside calibration_error only, got it beside {self.kind}. "
                "Leave it out."
            )
        return self

    @property
    def of_each_class(self) -> bool:
        """Whether each class has a number of its own."""
        return self.kind in AVERAGED

    @property
    def label(self) -> str:
        """The metric's name where it is shown, unless it has several numbers."""
        plain = self.average is None or self.average == "per_class"
        return self.kind if plain else f"{self.kind}_{self.average}"

    def problems(self, facts: PublicFacts) -> Iterator[str]:
        """Yield what doesn't fit the data."""
        of_numbers = self.kind in OF_NUMBERS
        if of_numbers != (facts.task == "regression"):
            got = f"{self.kind}, which measures {'numbers' if of_numbers else 'classes'}"
            yield f"expected a metric of a {facts.task} task, got {got}. Take another."
            return
        kept = "per_class" if self.average == "per_class" else self.kind
        most = MOST_CLASSES.get(kept)
        if most is not None and facts.outputs > most:
            yield f"expected at most {most} classes for {kept}, got {facts.outputs}. Leave it out."


def _name_or_block(value: Any, block: ModelWrapValidatorHandler[Metric]) -> Any:
    return block({"kind": value} if isinstance(value, str) else value)


def _as_written(value: Metric) -> Any:
    """Return what a spec would hold: the bare name where nothing else is set."""
    data = value.model_dump(mode="json", exclude_defaults=True)
    return value.kind if len(data) == 1 else data


if TYPE_CHECKING:
    NamedMetric = Metric
else:
    NamedMetric = Annotated[
        Metric,
        WrapValidator(_name_or_block, json_schema_input_type=MetricName | Metric),
        PlainSerializer(_as_written),
    ]
