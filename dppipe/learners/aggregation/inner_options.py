"""The options of what is estimated on each block; they load without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import WrapValidator
from pydantic.functional_validators import ModelWrapValidatorHandler

from dppipe.component import Field, Options


class LinearInner(Options):
    """What both linear models take."""

    regularization: float = Field(
        ge=1e-6,
        description="Lambda, over the sum of a block's losses; zero weights are the origin.",
    )
    max_norm: float = Field(
        1.0, ge=1e-6, le=1e6, description="The length to which features are brought."
    )
    scale: Literal["clip", "unit"] = Field(
        "clip",
        description="`clip` shortens longer features to the bound, `unit` gives all its length.",
    )


class RidgeInner(LinearInner):
    """A ridge regression of each block, on rows of bounded norm; classes are taken as numbers."""

    kind: Literal["ridge"]


class LogisticRidgeInner(LinearInner):
    """A logistic or softmax regression of each block, on rows of bounded norm."""

    kind: Literal["logistic_ridge"]


class SgdInner(Options):
    """Ordinary training of the `model` network on each block, from the same first weights."""

    kind: Literal["sgd"]
    epochs: int = Field(10, gt=0, le=10_000, description="Passes over a block.")
    lr: float = Field(0.1, gt=0, description="The learning rate.")
    batch_size: int = Field(32, gt=0, description="Records of a block in one step.")
    momentum: float = Field(0.9, ge=0, lt=1, description="The momentum of the steps.")
    weight_decay: float = Field(0.0, ge=0, description="How strongly weights are pulled to zero.")


_KINDS: dict[str, type[Options]] = {
    "ridge": RidgeInner,
    "logistic_ridge": LogisticRidgeInner,
    "sgd": SgdInner,
}


def _chosen(value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
    # A plain union would report the errors of both its members; here only the chosen one reports.
    if isinstance(value, LinearInner | SgdInner):
        return value
    kind = value.get("kind") if isinstance(value, dict) else value
    if kind not in _KINDS:
        raise ValueError(
            f"expected a block whose kind is ridge, logistic_ridge or sgd, got {kind!r}. Take one, "
            "such as {kind: logistic_ridge, regularization: 1.0}."
        )
    return _KINDS[kind].from_data(value if isinstance(value, dict) else {"kind": value})


if TYPE_CHECKING:
    Inner = RidgeInner | LogisticRidgeInner | SgdInner
else:
    Inner = Annotated[
        RidgeInner | LogisticRidgeInner | SgdInner,
        WrapValidator(_chosen, json_schema_input_type=RidgeInner | LogisticRidgeInner | SgdInner),
    ]
