"""Privacy events as plain data: what a ledger row holds, and what an accountant reads back from it.

Events are `dp_accounting` DpEvents, the field's own vocabulary. Only events that dppipe can charge
are written or read: an unknown one is refused, never guessed. Every number is a finite Python
float: dp_accounting reads an `int` or a NumPy multiplier inside a sampled composition as no privacy
loss at all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Each chargeable event with its fields: a float, an integer, several floats that may be 0, an
# event again, or several.
_FIELDS: dict[str, dict[str, str]] = {
    "NoOpDpEvent": {},
    "GaussianDpEvent": {"noise_multiplier": "float"},
    "LaplaceDpEvent": {"noise_multiplier": "float"},
    "PoissonSampledDpEvent": {"sampling_probability": "float", "event": "event"},
    "SampledWithReplacementDpEvent": {
        "source_dataset_size": "int",
        "sample_size": "int",
        "event": "event",
    },
    "SampledWithoutReplacementDpEvent": {
        "source_dataset_size": "int",
        "sample_size": "int",
        "event": "event",
    },
    "TruncatedSubsampledGaussianDpEvent": {
        "dataset_size": "int",
        "sampling_probability": "float",
        "truncated_batch_size": "int",
        "noise_multiplier": "float",
    },
    "BallsInBinsDpEvent": {"bins": "int", "event": "event"},
    "MixtureOfGaussiansDpEvent": {
        "standard_deviation": "float",
        "sensitivities": "floats",
        "sampling_probs": "floats",
    },
    "SelfComposedDpEvent": {"event": "event", "count": "int"},
    "ComposedDpEvent": {"events": "events"},
}


def event_to_data(event: DpEvent) -> dict[str, Any]:
    """Return an event as plain data: its type's name and its fields."""
    name = type(event).__name__
    if name not in _FIELDS:
        raise PrivacyRefusal(
            f"event: expected one of {', '.join(sorted(_FIELDS))}, got {name}. It can't be charged."
        )
    data: dict[str, Any] = {"type": name}
    for field, form in _FIELDS[name].items():
        data[field] = _plain(field, form, getattr(event, field))
    return data


def event_from_data(data: Any) -> DpEvent:
    """Read an event back from its plain data."""
    fields = _FIELDS.get(str(data.get("type"))) if isinstance(data, dict) else None
    if fields is None or set(data) != {"type", *fields}:
        raise PrivacyRefusal(
            f"event: expected the fields of one of {', '.join(sorted(_FIELDS))}. The data can't "
            "be charged."
        )
    values = {field: _value(field, form, data[field]) for field, form in fields.items()}
    return _class(data["type"])(**values)


def changed_event(event: DpEvent, **numbers: float) -> DpEvent:
    """Return an event like this one with other numbers, where it has any of these names."""
    return event_from_data(_changed(event_to_data(event), numbers))


def _changed(data: dict[str, Any], numbers: dict[str, float]) -> dict[str, Any]:
    known = {name: value for name, value in numbers.items() if name in data}
    inner = {"event": _changed(data["event"], numbers)} if "event" in data else {}
    return data | known | inner


def _class(name: str) -> Any:
    """Return the class of an event: dp_accounting's, or dppipe's own."""
    if name == "BallsInBinsDpEvent":
        from dppipe.privacy.events.balls_in_bins import event_class

        return event_class()
    from dp_accounting import dp_event

    return getattr(dp_event, name)


def _plain(field: str, form: str, value: Any) -> Any:
    """Return a field of an event as plain data; sequences become lists."""
    if form == "event":
        return event_to_data(value)
    if form == "events":
        return [event_to_data(one) for one in value]
    if form == "floats":
        return [_number(field, "share", one) for one in value]
    return _number(field, form, value)


def _value(field: str, form: str, value: Any) -> Any:
    """Return a field of an event from plain data.

    Sequences become tuples, so that events can be keys.
    """
    if form == "event":
        return event_from_data(value)
    if form in ("events", "floats"):
        if not isinstance(value, list):
            raise PrivacyRefusal(f"event.{field}: expected a list, got {value!r}.")
        if form == "events":
            return tuple(event_from_data(one) for one in value)
        return tuple(_number(field, "share", one) for one in value)
    return _number(field, form, value)


def _number(field: str, form: str, value: Any) -> int | float:
    try:
        bad = (
            isinstance(value, bool | str)
            or not math.isfinite(value)
            or (form == "int" and int(value) != value)
        )
    except (TypeError, ValueError, OverflowError):
        bad = True
    if bad or value < 0 or (value == 0 and form != "share"):
        raise PrivacyRefusal(f"event.{field}: expected a finite number > 0, got {value!r}.")
    return int(value) if form == "int" else float(value)
