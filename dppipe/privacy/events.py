"""Privacy events as plain data: what a ledger row holds, and what an accountant reads back from it.

Events are `dp_accounting` DpEvents, the field's own vocabulary. Only events that dppipe can charge are written or read: an
unknown one is refused, never guessed. Every number is a finite Python float: dp_accounting reads an `int` or a NumPy
multiplier inside a sampled composition as no privacy loss at all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Each chargeable event with its fields: a float, an integer, or an event again.
_FIELDS: dict[str, dict[str, str]] = {
    "NoOpDpEvent": {},
    "GaussianDpEvent": {"noise_multiplier": "float"},
    "LaplaceDpEvent": {"noise_multiplier": "float"},
    "PoissonSampledDpEvent": {"sampling_probability": "float", "event": "event"},
    "SampledWithReplacementDpEvent": {"source_dataset_size": "int", "sample_size": "int", "event": "event"},
    "SampledWithoutReplacementDpEvent": {"source_dataset_size": "int", "sample_size": "int", "event": "event"},
    "TruncatedSubsampledGaussianDpEvent": {
        "dataset_size": "int",
        "sampling_probability": "float",
        "truncated_batch_size": "int",
        "noise_multiplier": "float",
    },
    "SelfComposedDpEvent": {"event": "event", "count": "int"},
}


def event_to_data(event: DpEvent) -> dict[str, Any]:
    """Give an event as plain data: its type's name and its fields."""
    name = type(event).__name__
    if name not in _FIELDS:
        raise PrivacyRefusal(f"event: expected one of {', '.join(sorted(_FIELDS))}, got {name}. It can't be charged.")
    return {"type": name} | {field: _plain(field, form, getattr(event, field)) for field, form in _FIELDS[name].items()}


def event_from_data(data: Any) -> DpEvent:
    """Read an event back from its plain data."""
    import dp_accounting

    fields = _FIELDS.get(str(data.get("type"))) if isinstance(data, dict) else None
    if fields is None or set(data) != {"type", *fields}:
        raise PrivacyRefusal(f"event: expected the fields of one of {', '.join(sorted(_FIELDS))}. The data can't be charged.")
    values = {
        field: event_from_data(data[field]) if form == "event" else _plain(field, form, data[field])
        for field, form in fields.items()
    }
    return getattr(dp_accounting, data["type"])(**values)


def _plain(field: str, form: str, value: Any) -> Any:
    if form == "event":
        return event_to_data(value)
    if isinstance(value, bool) or not math.isfinite(value) or value <= 0 or (form == "int" and int(value) != value):
        raise PrivacyRefusal(f"event.{field}: expected a finite number > 0, got {value!r}.")
    return int(value) if form == "int" else float(value)
