"""Which release a learner may use: the one that the gate has just offered, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from dppipe.privacy.release import Release


def refuse_other_release(offered: Release | None, release: Release) -> None:
    """Refuse a release that isn't the one which was offered: each is used once."""
    if offered is None:
        raise PrivacyRefusal(
            f"gate: expected a release that next() has just returned, got {release.what!r} "
            "again or without asking. Each release is charged and used once."
        )
    planned = (offered.what, offered.event, offered.count, offered.covers)
    if (release.what, release.event, release.count, release.covers) != planned:
        raise PrivacyRefusal(
            f"gate: expected the release {offered.what!r} as next() has returned it, got one "
            "with another event or count. Only facts may be added."
        )
