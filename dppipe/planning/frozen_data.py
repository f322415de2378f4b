"""The base of a plan's parts: frozen data that reads back from JSON, and refuses unknown names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FrozenData(BaseModel):
    """Typed data of a plan, or of a file beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
