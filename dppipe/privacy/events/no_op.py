"""Nothing is released."""

from __future__ import annotations

from dppipe.privacy.events.base import EventRule

RULE = EventRule(
    name="NoOpDpEvent",
    fields={},
    meaning="Nothing is released, so that it costs nothing under every relation.",
    parts=lambda event: (),
)
