"""The `tune` block: a search for good settings whose whole cost is stated beforehand.

Candidates come in three forms: a grid, a list of overrides, or ranges from which the public `seed`
draws points. `candidates.py` makes specs of them; `docs/tuning.md` says what a search costs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import PlainSerializer, ValidationError, WrapValidator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from dppipe.component import AutoFloat, Field, Options

MOST_CANDIDATES = 1000
_RANGES = {"ranges", "points"}
_EXAMPLE = "such as {optimizer.lr: [0.1, 0.25]}"


class Range(Options):
    """Where the values of one option are drawn from."""

    low: float = Field(description="The least value.")
    high: float = Field(description="The largest value.")
    scale: Literal["linear", "log"] = Field(
        "linear", description="`log`: each factor is as likely as any other; for learning rates."
    )
    whole: bool = Field(False, description="Whether values are rounded to whole numbers.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"expected low below high, got {self.low:g} and {self.high:g}.")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"expected low > 0 for scale: log, got {self.low:g}.")
        return self


class Ranges(Options):
    """Candidates that the public seed draws."""

    ranges: dict[str, Range] = Field(min_length=1, description="A range for each option.")
    points: int = Field(gt=0, le=MOST_CANDIDATES, description="How many candidates are drawn.")


def _read_candidates(value: Any, _: Any) -> Any:
    """Check the form of the candidates; they are kept as plain data."""
    if isinstance(value, list):
        _check_list(value)
    elif isinstance(value, dict) and set(value) & _RANGES:
        _check_ranges(value)
    elif isinstance(value, dict):
        _check_grid(value)
    else:
        raise _error("expected a grid, a list of overrides or ranges, got none of them. Give one.")
    return value


def _check_list(value: list[Any]) -> None:
    if not 1 <= len(value) <= MOST_CANDIDATES:
        raise _error(f"expected 1 to {MOST_CANDIDATES} candidates, got {len(value)}.")
    for number, candidate in enumerate(value):
        if not isinstance(candidate, dict):
            raise _error(
                "expected a block of overrides, such as {optimizer.lr: 0.1}, got something else.",
                at=(number,),
            )


def _check_ranges(value: dict[str, Any]) -> None:
    _check_keys(value, Ranges, at=())
    ranges = value.get("ranges")
    for option, limits in ranges.items() if isinstance(ranges, dict) else ():
        if isinstance(limits, dict):
            _check_keys(limits, Range, at=("ranges", option))
    Ranges.from_data(value)


def _check_keys(value: dict[str, Any], block: type[Options], *, at: tuple[str | int, ...]) -> None:
    for key in value:
        if key not in block.model_fields:
            known = ", ".join(block.model_fields)
            raise _error(f"expected one of {known}, got {key!r}.", at=(*at, key))


def _check_grid(value: dict[str, Any]) -> None:
    if not value:
        raise _error(f"expected a list of values for each option, got none. Give some, {_EXAMPLE}.")
    for option, values in value.items():
        if not isinstance(values, list) or not values:
            raise _error(
                f"expected a list of values to try, {_EXAMPLE}, got something else.", at=(option,)
            )
    count = math.prod(len(values) for values in value.values())
    if count > MOST_CANDIDATES:
        raise _error(f"expected at most {MOST_CANDIDATES} candidates, got a grid of {count}.")


def _error(message: str, *, at: tuple[str | int, ...] = ()) -> ValidationError:
    error = PydanticCustomError("dppipe", "{text}", {"text": message})
    details = InitErrorDetails(type=error, loc=at, input=None)
    return ValidationError.from_exception_data("candidates", [details])


def _as_it_is(value: Any) -> Any:
    return value


if TYPE_CHECKING:
    CandidateData = Any
else:
    CandidateData = Annotated[
        Any,
        WrapValidator(
            _read_candidates, json_schema_input_type=dict[str, Any] | list[dict[str, Any]]
        ),
        PlainSerializer(_as_it_is),
    ]


class RepetitionOptions(Options):
    """How many runs a search makes: a number that is drawn in secret."""

    kind: Literal["truncated_negative_binomial", "poisson"] = Field(
        "truncated_negative_binomial",
        description="The distribution of the number of runs; `poisson` may be 0, which leaves no "
        "model.",
    )
    mean: float = Field(gt=1, le=10_000, description="How many runs are made on average.")
    shape: float | None = Field(
        None,
        ge=0,
        le=100,
        description="Of the truncated negative binomial distribution: 0 (if not given) costs "
        "least and varies most, 1 is geometric.",
    )

    @model_validator(mode="after")
    def _shape_belongs_to_one_kind(self) -> Self:
        if self.kind == "poisson" and self.shape is not None:
            raise ValueError(
                f"expected no shape for kind: poisson, got {self.shape:g}. Remove it, or take "
                "kind: truncated_negative_binomial."
            )
        return self

    @property
    def event_shape(self) -> float:
        """The shape as events state it: infinite for the Poisson distribution."""
        return math.inf if self.kind == "poisson" else self.shape or 0.0


class ScoreOptions(Options):
    """What the best run is best at."""

    metric: Literal["accuracy", "loss"] = Field(
        "accuracy",
        description="`accuracy`: the more right answers the better. `loss`: the less the better; "
        "on a private holdout each record's loss is held to [0, 1].",
    )
    on: Literal["holdout"] = Field("holdout", description="The records that a run is scored on.")
    noise_std: AutoFloat = Field(
        "auto",
        gt=0,
        description="Noise on the sum over a private holdout; `auto`: the least that adds nothing "
        "to the cost. A public holdout takes none.",
    )


class Tune(Options):
    """A private search: candidates, how often one of them is run, and how the best is chosen."""

    candidates: CandidateData = Field(
        description="A grid (`{optimizer.lr: [0.1, 0.25]}`), a list of overrides "
        "(`[{optimizer.lr: 0.1}, ...]`), or `{ranges: {optimizer.lr: {low: 0.01, high: 1, scale: "
        "log}}, points: 20}`, drawn by the spec's `seed`."
    )
    weights: list[float] | None = Field(
        None, description="How likely each candidate is, in their order; if not given, all alike."
    )
    repetitions: RepetitionOptions = Field(description="How many runs are made.")
    score: ScoreOptions = Field(default_factory=ScoreOptions, description="How runs are compared.")
