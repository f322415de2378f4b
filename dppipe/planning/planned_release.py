"""A release as a plan holds it: plain data that can be written to `plan.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict

from dppipe.privacy.release import Fact, Release

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class PlannedRelease(BaseModel):
    """A release that isn't a step, as data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    event: dict[str, Any]
    """The event's plain data."""
    count: int = 1
    covers: int = 1
    facts: dict[str, Fact] = {}

    @classmethod
    def of(cls, release: Release) -> Self:
        """Return the data of a release."""
        from dppipe.privacy.events.plain import event_to_data

        return cls(
            what=release.what,
            event=event_to_data(release.event),
            count=release.count,
            covers=release.covers,
            facts=dict(release.facts),
        )

    @classmethod
    def statistics(cls, name: str, noise_multiplier: float) -> Self:
        """Return the release of private statistics that plans of earlier versions describe."""
        event = {"type": "GaussianDpEvent", "noise_multiplier": noise_multiplier}
        facts: dict[str, Fact] = {"statistics": name, "noise_multiplier": noise_multiplier}
        return cls(what="statistics", event=event, facts=facts)

    def release(self) -> Release:
        """Return the release."""
        return Release(
            what=self.what,
            event=self.dp_event,
            count=self.count,
            covers=self.covers,
            facts=self.facts,
        )

    @property
    def dp_event(self) -> DpEvent:
        """The event that is charged."""
        from dppipe.privacy.events.plain import event_from_data

        return event_from_data(self.event)
