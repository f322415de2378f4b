"""Several events, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dppipe.privacy.events.base import EventRule

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def _parts(event: Any) -> Iterator[tuple[DpEvent, int]]:
    for inner in event.events:
        yield inner, 1


RULE = EventRule(
    name="ComposedDpEvent",
    fields={"events": "events"},
    meaning="Several events, one after the other: each is charged by itself.",
    parts=_parts,
)
