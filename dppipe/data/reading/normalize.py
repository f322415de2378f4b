"""The type of a `normalize` option: public constants, private statistics, or nothing."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WrapValidator
from pydantic.functional_validators import ModelWrapValidatorHandler

from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.data.reading.scaling import Constants, refuse_fitting


def _chosen(value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
    # A plain union would report the errors of both its members; here only the chosen one reports.
    if value is None or isinstance(value, Constants | PrivateScaling):
        return value
    refuse_fitting(value)
    meant = PrivateScaling if isinstance(value, dict) and "kind" in value else Constants
    return meant.from_data(value)


Normalize = Annotated[
    Constants | PrivateScaling | None,
    WrapValidator(_chosen, json_schema_input_type=Constants | PrivateScaling | None),
]
"""Constants, `{kind: private, ...}`, or nothing; a word that asks for fitting is refused."""


def _constants_alone(value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
    if isinstance(value, PrivateScaling) or (isinstance(value, dict) and "kind" in value):
        raise ValueError(
            "expected constants, such as {mean: 0.5, std: 0.25}, got a kind. Private statistics "
            "are released of data in memory, not of records that are read one by one."
        )
    return _chosen(value, handler)


PublicNormalize = Annotated[
    Constants | None, WrapValidator(_constants_alone, json_schema_input_type=Constants | None)
]
"""Constants, or nothing: for records that are read one by one."""
