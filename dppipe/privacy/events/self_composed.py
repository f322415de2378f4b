"""One event, several times over."""

from __future__ import annotations

from dppipe.privacy.events.base import EventRule
from dppipe.privacy.events.nesting import inner_multiplier

RULE = EventRule(
    name="SelfComposedDpEvent",
    fields={"event": "event", "count": "int"},
    meaning="`event`, `count` times over: each time is charged.",
    parts=lambda event: [(event.event, event.count)],
    multiplier=inner_multiplier,
)
