"""Releases that aren't steps, in words: what each is, and what was released of it.

`_KINDS` has the words of the releases that dppipe makes itself; any other release, such as a
plugin learner's, is described by its name and its facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.planning.planned_release import PlannedRelease


class _Words(NamedTuple):
    """The words for one kind of release; `{name}` stands for a fact of that name."""

    planned: str
    assumption: str
    """What the claim says of it under "What it rests on"."""
    released: str
    without_noise: str
    """What a run without a budget says of it."""
    preprocessing: str = ""
    """The part of preprocessing that it makes a charged release of."""


_KINDS = {
    "statistics": _Words(
        planned="inputs are scaled by private {statistics}, noise multiplier {noise_multiplier:g}",
        assumption="Inputs were scaled by {statistics} of the training records, released with "
        "noise (multiplier {noise_multiplier:g}) and charged before the first step.",
        released="The noisy {statistics} that inputs were scaled by (noise multiplier "
        "{noise_multiplier:g}), `statistics.json`.",
        without_noise="The {statistics} that inputs were scaled by, without noise, "
        "`statistics.json`.",
        preprocessing="the scaling of inputs",
    ),
}
_HASH_DIGITS = 12
"""How much of a hash is shown; `plan.json` and `privacy.json` have all of it."""
_OTHER = _Words(
    planned="{what} ({described})",
    assumption="A release named {what!r} ({described}) was charged in the ledger before its noise "
    "was drawn.",
    released="What was released as {what!r} ({described}), in `released/`.",
    without_noise="What was released as {what!r}, without noise.",
)


def planned_phrase(release: PlannedRelease) -> str:
    """Return what is planned to be released, in a few words."""
    return _fill(_words(release).planned, release)


def release_assumptions(plan: Plan) -> Iterator[str]:
    """Yield what a claim rests on in each release that isn't a step."""
    for release in plan.releases:
        yield _fill(_words(release).assumption, release)


def released_phrases(plan: Plan, done: int) -> Iterator[str]:
    """Yield what was released, for the first `done` releases that aren't steps."""
    for release in plan.releases[:done]:
        words = _words(release)
        yield _fill(words.released if plan.private else words.without_noise, release)


def charged_preprocessing(plan: Plan) -> str:
    """Return which preprocessing was charged, for the sentence on what isn't covered."""
    parts = []
    for release in plan.releases:
        part = _words(release).preprocessing
        if part:
            parts.append(part)
    return f", but for {' and '.join(parts)}, which was charged" if parts else ""


def _words(release: PlannedRelease) -> _Words:
    return _KINDS.get(release.what, _OTHER)


def _fill(text: str, release: PlannedRelease) -> str:
    facts = []
    for name, value in release.facts.items():
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        if name.startswith("sha256"):
            shown = shown[:_HASH_DIGITS]
        facts.append(f"{name.replace('_', ' ')} {shown}")
    described = ", ".join(facts) or release.event["type"]
    if release.count > 1:
        described += f", {release.count} times"
    return text.format(what=release.what, described=described, **release.facts)
