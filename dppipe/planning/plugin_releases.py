"""What a plan accepts as the releases of a plugin learner, which isn't believed.

The gate hands a plugin every unit of the training records. So an event that claims a random sample
of them would charge too little, and so would a release that says it is paid for already.
"""

from __future__ import annotations

from collections.abc import Sequence

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.privacy.release import PlansReleases, PublicFacts, Release

PLUGIN_EVENTS = ("GaussianDpEvent", "LaplaceDpEvent", "ExponentialMechanismDpEvent")
"""The events that `sum_units` and `select_units` of the gate can act by."""
_TAKEN = ("projection", "statistics", "step")
"""Kinds of releases that mean something else in a run directory."""


def check_plugin_planning(learner: PlansReleases, facts: PublicFacts) -> None:
    """Refuse a plugin whose releases don't follow from its options, facts and scale alone."""
    first, again = (list(learner.releases(facts, scale=1.0)) for _ in range(2))
    check_plugin_releases(first)
    if first != again:
        raise UsageError(
            "learner: expected releases() to return equal releases for equal facts and scale, got "
            "others when it was asked again. They may follow from options, facts and scale alone."
        )


def check_plugin_releases(releases: Sequence[Release]) -> None:
    """Refuse releases that a plugin learner can't be charged for.

    Guarantee: every release is charged at least once, by the event of the mechanism that the gate
    uses for it, on all records.
    """
    for release in releases:
        if not isinstance(release, Release):
            raise PrivacyRefusal(
                f"learner: expected a list of Release from releases(), got {_name(release)} in it. "
                "Fix the learner."
            )
        check_plugin_event(release)
        if type(release.count) is not int or release.count < 1:
            raise PrivacyRefusal(
                f"learner: expected the release {release.what!r} to be charged at least once, got "
                f"count {release.count!r}. Leave count out."
            )
        if not isinstance(release.what, str) or not release.what or release.what in _TAKEN:
            raise PrivacyRefusal(
                "learner: expected a word for what is released, other than "
                f"{' and '.join(_TAKEN)}, got {release.what!r}. Choose another."
            )


def check_plugin_event(release: Release) -> None:
    """Refuse an event of another mechanism than the gate's, such as one of a sample of records."""
    if _name(release.event) not in PLUGIN_EVENTS:
        raise PrivacyRefusal(
            f"learner: expected one of {', '.join(PLUGIN_EVENTS)} for the release "
            f"{release.what!r}, got {_name(release.event)}. A plugin's releases see all records: "
            "charge the noise itself."
        )


def _name(value: object) -> str:
    return type(value).__name__
