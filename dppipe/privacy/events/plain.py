"""Privacy events as plain data: what a ledger row holds, and what an accountant reads back from it.

Events are `dp_accounting` DpEvents, the field's own vocabulary. Only events with a rule (`base.py`)
are written or read: an unknown one is refused, never guessed. Every number is a finite Python
float: dp_accounting reads an `int` or a NumPy multiplier inside a sampled composition as no privacy
loss at all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.events.base import EventRule, Form, event_names, find_rule, rule_of

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_INFINITE = "infinity"
"""What stands for an infinite shape: JSON has no such number."""


def event_to_data(event: DpEvent) -> dict[str, Any]:
    """Return an event as plain data: its type's name and its fields."""
    rule = rule_of(event)
    data: dict[str, Any] = {"type": rule.name}
    for field, form in rule.fields.items():
        data[field] = _plain(field, form, getattr(event, field))
    return data


def event_from_data(data: Any) -> DpEvent:
    """Read an event back from its plain data."""
    rule = find_rule(str(data.get("type"))) if isinstance(data, dict) else None
    if rule is None or set(data) != {"type", *rule.fields}:
        raise PrivacyRefusal(
            f"event: expected the fields of one of {', '.join(event_names())}. The data can't "
            "be charged."
        )
    values = {field: _value(field, form, data[field]) for field, form in rule.fields.items()}
    made: DpEvent = _class(rule)(**values)
    return made


def plain_form(event: DpEvent) -> DpEvent:
    """Return the same event with plain finite numbers, and tuples for sequences."""
    return event_from_data(event_to_data(event))


def changed_event(event: DpEvent, **numbers: float) -> DpEvent:
    """Return an event like this one with other numbers, where it has any of these names."""
    return event_from_data(_changed(event_to_data(event), numbers))


def _changed(data: dict[str, Any], numbers: dict[str, float]) -> dict[str, Any]:
    known = {name: value for name, value in numbers.items() if name in data}
    inner = {"event": _changed(data["event"], numbers)} if "event" in data else {}
    return data | known | inner


def _class(rule: EventRule) -> Any:
    """Return the class of an event: dppipe's own, or dp_accounting's."""
    if rule.event_class is not None:
        return rule.event_class()
    from dp_accounting import dp_event

    return getattr(dp_event, rule.name)


def _plain(field: str, form: Form, value: Any) -> Any:
    """Return a field of an event as plain data; sequences become lists."""
    if form == "event":
        return event_to_data(value)
    if form == "events":
        return [event_to_data(one) for one in value]
    if form == "floats":
        return [_number(field, "share", one) for one in value]
    if form == "shape" and value == math.inf:
        return _INFINITE
    return _number(field, form, value)


def _value(field: str, form: Form, value: Any) -> Any:
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
    if form == "shape" and value == _INFINITE:
        return math.inf
    return _number(field, form, value)


def _number(field: str, form: Form, value: Any) -> int | float:
    try:
        bad = (
            isinstance(value, bool | str)
            or not math.isfinite(value)
            or (form == "int" and int(value) != value)
        )
    except (TypeError, ValueError, OverflowError):
        bad = True
    if bad or value < 0 or (value == 0 and form not in ("share", "shape")):
        raise PrivacyRefusal(f"event.{field}: expected a finite number > 0, got {value!r}.")
    return int(value) if form == "int" else float(value)
