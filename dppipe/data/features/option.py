"""The type of a `features` option: one of the kinds of features, or nothing."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WrapValidator
from pydantic.functional_validators import ModelWrapValidatorHandler

from dppipe.data.features.base import FeatureMap
from dppipe.data.features.orientation_histograms import OrientationHistograms
from dppipe.data.features.pca import PrivatePca

KINDS: dict[str, type[FeatureMap]] = {
    "orientation_histograms": OrientationHistograms,
    "pca": PrivatePca,
}


def _chosen(value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
    # A plain union would report the errors of all its members; here only the chosen one reports.
    if value is None or isinstance(value, FeatureMap):
        return value
    data = {"kind": value} if isinstance(value, str) else value
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in KINDS:
        raise ValueError(
            f"expected a block with kind: {' or '.join(KINDS)}, got {kind or value!r}. Name one."
        )
    needed = [name for name, field in KINDS[kind].model_fields.items() if field.is_required()]
    if needed and isinstance(value, str):
        raise ValueError(
            f"expected a block with kind, {' and '.join(needed)}, got {value!r} alone. Write "
            f"{{kind: {value}, ...}}."
        )
    return KINDS[kind].from_data(data)


Features = Annotated[
    OrientationHistograms | PrivatePca | None,
    WrapValidator(_chosen, json_schema_input_type=OrientationHistograms | PrivatePca | None),
]
"""`{kind: orientation_histograms, ...}`, `{kind: pca, ...}`, or nothing."""
